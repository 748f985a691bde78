// The sealed files of a dataset's partitions: what manifests name, how it is read and what goes.
//
// One job: a manifest says which files an attempt has, and their checksums. It is written last, by
// rename: an attempt is there when its manifest is, and what no manifest names was never
// acknowledged, or has other owners now. Partitions without rows are named and have no file. A file
// is read once its bytes are known to be those that were written.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "store/disk.hpp"

namespace fabric {

class MessageStream;
struct DatasetTicket;

std::string part_name(uint32_t partition, const char* ending = ".arrows");

struct PartFile {
  int64_t rows = 0, n_bytes = 0;
  uint32_t crc32 = 0;  // of all its bytes
};

struct Manifest {
  std::string folder;  // beside the manifest
  std::shared_ptr<arrow::Schema> schema;
  int64_t rows = 0;
  uint32_t crc32c_sum = 0;
  std::map<uint32_t, PartFile> files;
};

// As two lines, JSON with sorted keys and the CRC-32 of the first.
arrow::Result<std::string> encode_manifest(const Manifest& manifest);

// A manifest; DataError when a single byte of it is not as it was written.
arrow::Result<Manifest> decode_manifest(std::string_view data);

// A small file put in place of another one, by way of `aside`; the folder is to be synced by the
// caller.
int replace_file(Disk& disk, const FilePath& aside, const FilePath& place,
                 const std::string& bytes);

using Partitions = std::set<uint32_t>;

// Where the manifests of one part lie, and who else may change them.
struct SealedPart {
  FilePath transaction;
  std::string stem;
  Disk& disk;
  std::mutex& publishing;

  FilePath manifest() const { return transaction / (stem + ".manifest"); }
};

// Keep only these partitions of an attempt that was written here and of what was copied here of it.
// The manifest goes first, so that whatever a crash leaves is what no manifest names.
int keep_partitions(SealedPart part, const Partitions& kept);

// Names of the folders in a folder, links left out.
std::vector<std::string> folders_in(const FilePath& path);

// Of one transaction, what a crash left: attempts that no manifest names. Where a manifest is
// damaged, nothing beside it is removed.
void remove_leftovers(const FilePath& transaction);

// A verified file; it is opened early when it can, so that what was begun is read to its end.
struct WholeFile {
  FilePath path;
  std::string shown;
  OpenFile file;
};

// Size and CRC-32 of a file are compared with its manifest once, as long as inode, size and time of
// change stay. Thread-safe.
class VerifiedFiles {
 public:
  explicit VerifiedFiles(std::string agent) : agent_(std::move(agent)) {}

  // `whole.file` is open afterwards.
  arrow::Status verify(WholeFile& whole, const PartFile& expected);

 private:
  arrow::Status compare(const WholeFile& whole, const PartFile& expected) const;

  std::string agent_;
  std::mutex mutex_;
  std::unordered_set<std::string> known_;
};

struct PartOptions {
  bool headers = false;  // for agents
  int cpu = 0;
  std::string agent;  // for messages of errors
};

// The stream over files that are known to be whole. For agents it looks like an edge (edge 0,
// producer 0): every message has a header, an END with the total of rows is the last.
std::unique_ptr<MessageStream> part_stream(DatasetTicket ticket,
                                           std::shared_ptr<arrow::Schema> schema,
                                           std::vector<WholeFile> files, PartOptions options);

}  // namespace fabric
