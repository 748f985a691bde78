// What a crash left: attempts that no manifest names were never acknowledged.
//
// One job: find and remove them. Where a manifest is damaged, nothing beside it is removed.
#pragma once
#include <algorithm>
#include <set>

#include "store/disk.hpp"
#include "manifest.hpp"

namespace fabric {

// Names of the folders in a folder, links left out.
inline std::vector<std::string> folders_in(const FilePath& path) {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(path, code)) {
    if (entry.symlink_status(code).type() == std::filesystem::file_type::directory) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// <writer>-<attempt>-<12 hexadecimal digits>, of a copy <writer>-<attempt>.p<partition>-<...>
inline bool is_attempt(const std::string& name) {
  const size_t last = name.rfind('-');
  if (last == name.npos || name.size() - last != 13) return false;
  const size_t first = name.rfind('-', last - 1);
  if (last == 0 || first == name.npos || first == 0 || last - first < 2) return false;
  size_t end = name.find_first_not_of("0123456789", first + 1);
  if (name.compare(end, 2, ".p") == 0) end = name.find_first_not_of("0123456789", end + 2);
  return end == last && name.find_first_not_of("0123456789abcdef", last + 1) == name.npos;
}

// Of one transaction.
inline void remove_leftovers(const FilePath& transaction) {
  std::set<std::string> sealed;
  std::vector<FilePath> paths;
  bool damaged = false;  // then nothing near it is removed
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(transaction, code)) {
    paths.push_back(entry.path());
    if (entry.path().extension() != ".manifest") continue;
    std::string bytes;
    read_whole(entry.path(), bytes);
    const auto manifest = decode_manifest(bytes);
    damaged = damaged || !manifest.ok();
    if (manifest.ok()) sealed.insert(manifest->folder);
  }
  for (const FilePath& path : paths) {
    const std::string name = path.filename();
    if (is_attempt(name) && !sealed.contains(name) && !damaged) {
      remove_tree(path);
    } else if (path.extension() == ".aside") {
      std::filesystem::remove(path, code);
    }
  }
}

}  // namespace fabric
