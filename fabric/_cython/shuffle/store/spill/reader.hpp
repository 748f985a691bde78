// Messages out of spill files, for one reader.
//
// One job: bytes by `pread`, whole or not at all, and what they hold. Files may be cut off, changed
// or gone at any time (so they are never mapped): each message's CRC32C is compared before a byte
// of it means anything, and what is wrong is a PartitionLostError.
#pragma once
#include <map>

#include "store/spill/files.hpp"

namespace fabric {

class SpillReader {
 public:
  SpillReader(std::shared_ptr<SpillFiles> files, uint32_t partition, int cpu)
      : files_(std::move(files)), partition_(partition), cpu_(cpu) {}

  // The entries of this partition in run `at`.
  arrow::Result<std::vector<SpillEntry>> entries(size_t at) {
    ARROW_ASSIGN_OR_RAISE(const auto index, files_->index(partition_));
    if (at >= index->runs.size()) {
      return files_->lost(partition_, "of its index", "a run is missing");
    }
    const SpillRun& run = index->runs[at];
    const auto [first, last] = run.range(static_cast<int32_t>(partition_));
    return std::vector<SpillEntry>(run.entries.begin() + static_cast<std::ptrdiff_t>(first),
                                   run.entries.begin() + static_cast<std::ptrdiff_t>(last));
  }

  // Let the system read them ahead: entries of one partition lie one behind the other.
  arrow::Status announce(const std::vector<SpillEntry>& entries) {
    if (entries.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const int fd, open(entries.front().file));
    const uint64_t begin = entries.front().offset;
    const uint64_t end = entries.back().offset + entries.back().length;
    (void)::posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                          POSIX_FADV_WILLNEED);
    return arrow::Status::OK();
  }

  // The bytes of one message, which are those that were written.
  arrow::Result<std::shared_ptr<arrow::Buffer>> read(const SpillEntry& entry) {
    ARROW_ASSIGN_OR_RAISE(const int fd, open(entry.file));
    ARROW_ASSIGN_OR_RAISE(auto bytes, arrow::AllocateBuffer(static_cast<int64_t>(entry.length)));
    for (uint64_t done = 0; done < entry.length;) {
      const ssize_t n = ::pread(fd, bytes->mutable_data() + done, entry.length - done,
                                static_cast<off_t>(entry.offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return lost(entry, std::generic_category().message(errno));
      if (n == 0) return lost(entry, "it is cut off");
      done += static_cast<uint64_t>(n);
    }
    Crc32c crc(cpu_);
    crc.add(bytes->data(), bytes->size());
    if (crc.value() != entry.bytes_crc32c) {
      return lost(entry, "it is damaged: the checksum of a message differs");
    }
    return std::shared_ptr<arrow::Buffer>(std::move(bytes));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> rows(const SpillEntry& entry,
                                                          const SpillCodec& codec) {
    ARROW_ASSIGN_OR_RAISE(auto bytes, read(entry));
    auto rows = codec.decode(std::move(bytes));
    if (!rows.ok()) return lost(entry, rows.status().message().substr(0, 200));
    if ((*rows)->num_rows() != static_cast<int64_t>(entry.rows)) {
      return lost(entry, "a message has other rows than its index says");
    }
    return rows;
  }

  arrow::Status lost(const SpillEntry& entry, const std::string& why) const {
    return files_->lost(partition_, files_->shown(entry.file), why);
  }

 private:
  arrow::Result<int> open(uint32_t file) {
    OpenFile& found = open_[file];
    if (found.fd() < 0) ARROW_RETURN_NOT_OK(files_->open(file, partition_, found));
    return found.fd();
  }

  const std::shared_ptr<SpillFiles> files_;
  const uint32_t partition_;
  const int cpu_;
  std::map<uint32_t, OpenFile> open_;
};

}  // namespace fabric
