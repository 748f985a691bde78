// Folders for what memory has no room for.
//
// One job: a folder for the next file, in turn, that has room on its disk. The folders are an
// agent's own, made and locked by `fabric/agent/spill.py`.
#pragma once
#include <sys/statvfs.h>

#include <memory>
#include <vector>

#include "store/disk.hpp"

namespace fabric {

class SpillPlaces {
 public:
  // `keep_free_bytes` of each disk stay free for others.
  SpillPlaces(std::vector<FilePath> folders, int64_t keep_free_bytes)
      : folders_(std::move(folders)), keep_free_bytes_(keep_free_bytes) {}

  Disk& disk() { return disk_; }

  // Folders to try for a file that will get `n_bytes`, the next in turn first; those whose disk has
  // no room are left out.
  std::vector<FilePath> with_room(int64_t n_bytes) {
    std::vector<FilePath> found;
    const size_t first = turn_.fetch_add(1);
    for (size_t i = 0; i < folders_.size(); ++i) {
      const FilePath& folder = folders_[(first + i) % folders_.size()];
      if (free_bytes(folder) >= n_bytes + keep_free_bytes_) found.push_back(folder);
    }
    return found;
  }

  // What to say when none has: `why` is what the system said, if it said something.
  arrow::Status full(int64_t n_bytes, const std::string& why, const Where& where) const {
    return fault("StorageError",
                 "no room to spill " + std::to_string((n_bytes >> 20) + 1) + " MiB to any of " +
                     std::to_string(folders_.size()) + " folders" +
                     (why.empty() ? "" : " (" + why + ")") +
                     "; free space there, give more folders with --spill, or a larger --memory",
                 where);
  }

  uint64_t next_number() { return number_.fetch_add(1); }

 private:
  static int64_t free_bytes(const FilePath& folder) {
    struct statvfs found {};
    if (::statvfs(folder.c_str(), &found) != 0) return -1;
    return static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
  }

  const std::vector<FilePath> folders_;
  const int64_t keep_free_bytes_;
  std::atomic<size_t> turn_{0};
  std::atomic<uint64_t> number_{0};
  Disk disk_;
};

}  // namespace fabric
