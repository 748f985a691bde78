// The spill files of one task attempt: messages in runs, and the index that tells where they lie.
//
// One job: files from the first run to the last reader, who lets them go, in folders that have room
// on their disk. Usually one file; a run for which its disk has no room begins another in the next
// folder. Until the output is sealed the index is in memory; then it lies beside the file and is
// checked when somebody reads.
#pragma once
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/disk.hpp"
#include "store/output.hpp"

namespace fabric {

class SpillCodec;

// Folders for what memory has no room for: an agent's own, made and locked by
// `fabric/agent/process/folders.py`.
class SpillPlaces {
 public:
  // `keep_free_bytes` of each disk stay free for others.
  SpillPlaces(std::vector<FilePath> folders, int64_t keep_free_bytes)
      : folders_(std::move(folders)), keep_free_bytes_(keep_free_bytes) {}

  Disk& disk() { return disk_; }

  // Folders to try for a file that will get `n_bytes`, the next in turn first; those whose disk has
  // no room are left out.
  std::vector<FilePath> with_room(int64_t n_bytes);

  // What to say when none has: `why` is what the system said, if it said something.
  arrow::Status full(int64_t n_bytes, const std::string& why, const Where& where) const;

  uint64_t next_number() { return number_.fetch_add(1); }

 private:
  const std::vector<FilePath> folders_;
  const int64_t keep_free_bytes_;
  std::atomic<size_t> turn_{0};
  std::atomic<uint64_t> number_{0};
  Disk disk_;
};

// One message: its place, what is in it, and the CRC32C of its rows and of its bytes.
struct SpillEntry {
  uint64_t offset, length, rows, bytes;
  uint32_t file, rows_crc32c, bytes_crc32c, unused;
};
static_assert(sizeof(SpillEntry) == 48);

// What was written at once: the messages of partition p are entries first[p] to first[p + 1].
// Those of a broadcast are all under partition 0.
struct SpillRun {
  bool broadcast = false;
  std::vector<uint64_t> first;
  std::vector<SpillEntry> entries;

  std::pair<size_t, size_t> range(int32_t partition) const {
    const size_t p = broadcast ? 0 : static_cast<size_t>(partition);
    return {first[p], first[p + 1]};
  }
};

struct SpillIndex {
  std::vector<std::string> files;  // names in their folders
  std::vector<SpillRun> runs;
};

// The bytes of an index are a magic, a CRC32C of the rest, and protobuf whose arrays are those of
// this machine: nobody else reads them.
std::string encode_index(const SpillIndex& index, const OutputName& name, int cpu);

// What comes back was checked: version, checksum, whose it is, and that every number stays inside.
// What is wrong with the bytes goes to `wrong`.
std::optional<SpillIndex> decode_index(std::string_view bytes, const OutputName& name,
                                       int32_t n_partitions, int cpu, std::string& wrong);

constexpr uint32_t SPILL_VERSION = 1;

// Bytes of a message on their way to a file.
class Gathered final : public Gathering {
 public:
  int64_t n_bytes() const { return position_; }
  Buffers take() { return std::move(pieces_); }
};

// The messages of one run: bytes out in large writes, and what the index must know of each.
class RunWriter {
 public:
  // Behind `offset` bytes of the file with the number `file`, whose descriptor stands at its end.
  RunWriter(Disk& disk, int fd, uint32_t file, uint64_t offset, int cpu)
      : disk_(disk), fd_(fd), file_(file), offset_(offset), cpu_(cpu) {}

  // Once before the messages of each partition, and once behind the last.
  void next_partition() { run_.first.push_back(run_.entries.size()); }
  void set_broadcast(bool broadcast) { run_.broadcast = broadcast; }

  // The errno of the system, 0 when it is well.
  int add(Gathered& message, int64_t n_rows, int64_t n_bytes, uint32_t rows_crc32c);
  int flush();

  SpillRun take() { return std::move(run_); }

 private:
  static constexpr int64_t WRITE_BYTES = 1 << 20;

  void hold(std::shared_ptr<arrow::Buffer> piece);

  Disk& disk_;
  const int fd_;
  const uint32_t file_;
  uint64_t offset_;
  const int cpu_;
  SpillRun run_;
  Buffers held_;
  int64_t held_bytes_ = 0;
};

class SpillFiles {
 public:
  SpillFiles(std::shared_ptr<SpillPlaces> places, OutputName name, int32_t n_partitions, int cpu)
      : places_(std::move(places)), name_(std::move(name)), n_partitions_(n_partitions),
        cpu_(cpu) {}
  ~SpillFiles();
  SpillFiles(const SpillFiles&) = delete;
  SpillFiles& operator=(const SpillFiles&) = delete;

  // Write a run by `fill(writer)`, which gives an errno and is called again for the next folder
  // when its disk turns out to be full. Nothing is left of a run that failed. One thread at a time.
  using Fill = std::function<arrow::Result<int>(RunWriter&)>;
  arrow::Status add_run(int64_t n_bytes, const Fill& fill);

  // The run that was added last, and that nobody has read, is not there.
  void forget_last_run();

  // From now on the index lies on the disk; again after every later run.
  arrow::Status settle();

  // The index as it lies on the disk, checked once.
  arrow::Result<std::shared_ptr<const SpillIndex>> index(uint32_t partition);

  // Open the file of that number: a descriptor whose file was begun by us, in this version.
  arrow::Status open(uint32_t file, uint32_t partition, OpenFile& out) const;

  std::string shown(uint32_t file) const;

  arrow::Status lost(uint32_t partition, const std::string& file, const std::string& why) const;

 private:
  bool settled() const;
  std::string stem() const;
  int file_in(const FilePath& folder, uint32_t& number, OpenFile& out);
  arrow::Result<bool> try_run(const FilePath& folder, const Fill& fill, int& error);
  int write_index(const FilePath& folder, const std::string& bytes);
  arrow::Status load(uint32_t partition);

  const std::shared_ptr<SpillPlaces> places_;
  const OutputName name_;
  const int32_t n_partitions_;
  const int cpu_;
  mutable std::mutex mutex_;  // of all below
  std::vector<FilePath> files_;
  FilePath index_path_;
  std::shared_ptr<const SpillIndex> index_;  // null: it lies on the disk
};

// Messages out of spill files, for one reader: bytes by `pread`, whole or not at all, and what they
// hold. Files may be cut off, changed or gone at any time (so they are never mapped): the CRC32C of
// each message is compared before a byte of it means anything, and what is wrong is a
// PartitionLostError.
class SpillReader {
 public:
  SpillReader(std::shared_ptr<SpillFiles> files, uint32_t partition, int cpu)
      : files_(std::move(files)), partition_(partition), cpu_(cpu) {}

  // The entries of this partition in run `at`.
  arrow::Result<std::vector<SpillEntry>> entries(size_t at);

  // Let the system read them ahead: entries of one partition lie one behind the other.
  arrow::Status announce(const std::vector<SpillEntry>& entries);

  // The bytes of one message, which are those that were written.
  arrow::Result<std::shared_ptr<arrow::Buffer>> read(const SpillEntry& entry);

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> rows(const SpillEntry& entry,
                                                          const SpillCodec& codec);

  arrow::Status lost(const SpillEntry& entry, const std::string& why) const;

 private:
  arrow::Result<int> open(uint32_t file);

  const std::shared_ptr<SpillFiles> files_;
  const uint32_t partition_;
  const int cpu_;
  std::map<uint32_t, OpenFile> open_;
};

}  // namespace fabric
