// Sealed attempts of which only some partitions stay: the others have other owners now.
//
// One job: take partitions out of a manifest, and their files away. The manifest goes first, so
// that whatever a crash leaves is what no manifest names.
#pragma once
#include <mutex>
#include <set>

#include "aside.hpp"
#include "leftovers.hpp"

namespace fabric {

using Partitions = std::set<uint32_t>;

// Where the manifests of one part lie, and who else may change them.
struct SealedPart {
  FilePath transaction;
  std::string stem;
  Disk& disk;
  std::mutex& publishing;

  FilePath manifest() const { return transaction / (stem + ".manifest"); }
};

// Whether `name` is that of a copied partition of the part `stem`.
inline bool is_copy(const std::string& stem, const std::string& name) {
  const std::string prefix = stem + ".p";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == name.npos;
}

// What a manifest does not name any more, also what a crash left of that.
inline void remove_unnamed(const FilePath& folder, const std::map<uint32_t, PartFile>& files) {
  std::set<std::string> named;
  for (const auto& [partition, file] : files) named.insert(part_name(partition));
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!named.contains(entry.path().filename())) std::filesystem::remove(entry.path(), code);
  }
}

// A manifest without what is not `kept`; rows and sum stay those of the receipt.
inline int keep_in_manifest(const SealedPart& part, const Partitions& kept) {
  const std::lock_guard lock(part.publishing);
  std::string bytes;
  const int error = read_whole(part.manifest(), bytes);
  if (error == ENOENT || error == ENOTDIR) return 0;
  if (error != 0) return error;
  auto manifest = decode_manifest(bytes);
  if (!manifest.ok()) return 0;  // damaged: nothing near it is removed
  const FilePath folder = part.transaction / manifest->folder;
  const size_t n_gone = std::erase_if(
      manifest->files, [&](const auto& file) { return !kept.contains(file.first); });
  std::error_code code;
  if (manifest->files.empty()) {
    std::filesystem::remove(part.manifest(), code);
    remove_tree(folder);
    return code.value();
  }
  if (n_gone > 0) {
    const auto encoded = encode_manifest(*manifest);
    if (!encoded.ok()) return EIO;
    const FilePath aside = part.transaction / (manifest->folder + ".aside");
    if (const int failed = replace_file(part.disk, aside, part.manifest(), *encoded)) return failed;
    if (const int failed = part.disk.sync_folder(part.transaction)) return failed;
  }
  remove_unnamed(folder, manifest->files);
  return 0;
}

// Of an attempt that was written here and of its partitions that were copied here.
inline int keep_partitions(SealedPart part, const Partitions& kept) {
  if (const int error = keep_in_manifest(part, kept)) return error;
  std::vector<std::string> copies;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(part.transaction, code)) {
    if (entry.path().extension() != ".manifest") continue;
    if (is_copy(part.stem, entry.path().stem())) copies.push_back(entry.path().stem());
  }
  for (const std::string& copy : copies) {
    part.stem = copy;
    if (const int error = keep_in_manifest(part, kept)) return error;
  }
  ::rmdir(part.transaction.c_str());  // only when it is empty
  return 0;
}

}  // namespace fabric
