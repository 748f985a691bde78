// A small file put in place of another one: whole and durable, or not at all.
//
// One job: write aside, sync, rename.
#pragma once
#include "store/disk.hpp"

namespace fabric {

inline int write_aside(Disk& disk, const FilePath& aside, const std::string& bytes) {
  int fd = -1;
  if (const int error = disk.open_to_append(aside, O_EXCL, fd)) return error;
  const OpenFile file(fd);
  std::vector<iovec> pieces{{const_cast<char*>(bytes.data()), bytes.size()}};
  if (const int error = disk.write(fd, pieces)) return error;
  return disk.sync(fd);
}

// The folder is to be synced by the caller.
inline int replace_file(Disk& disk, const FilePath& aside, const FilePath& place,
                        const std::string& bytes) {
  int error = write_aside(disk, aside, bytes);
  if (error == 0) error = disk.rename(aside, place);
  std::error_code ignored;
  if (error != 0) std::filesystem::remove(aside, ignored);
  return error;
}

}  // namespace fabric
