// The messages of one run on their way to the end of a file.
//
// One job: bytes out in large writes, and what the index must know of each message.
#pragma once
#include <unistd.h>

#include "store/disk.hpp"
#include "store/spill/index.hpp"
#include "store/spill/message.hpp"

namespace fabric {

class RunWriter {
 public:
  // Behind `offset` bytes of the file with the number `file`, whose descriptor stands at its end.
  RunWriter(Disk& disk, int fd, uint32_t file, uint64_t offset, int cpu)
      : disk_(disk), fd_(fd), file_(file), offset_(offset), cpu_(cpu) {}

  // Once before the messages of each partition, and once behind the last.
  void next_partition() { run_.first.push_back(run_.entries.size()); }
  void set_broadcast(bool broadcast) { run_.broadcast = broadcast; }

  // The errno of the system, 0 when it is well.
  int add(Gathered& message, int64_t n_rows, int64_t n_bytes, uint32_t rows_crc32c) {
    SpillEntry entry{};
    entry.offset = offset_;
    entry.length = static_cast<uint64_t>(message.n_bytes());
    entry.rows = static_cast<uint64_t>(n_rows);
    entry.bytes = static_cast<uint64_t>(n_bytes);
    entry.file = file_;
    entry.rows_crc32c = rows_crc32c;
    Crc32c crc(cpu_);
    for (auto& piece : message.take()) {
      crc.add(piece->data(), piece->size());
      hold(std::move(piece));
    }
    entry.bytes_crc32c = crc.value();
    const uint64_t rest = entry.length % SPILL_ALIGNMENT;
    if (rest != 0) hold(arrow::Buffer::FromString(std::string(SPILL_ALIGNMENT - rest, '\0')));
    run_.entries.push_back(entry);
    return held_bytes_ >= WRITE_BYTES ? flush() : 0;
  }

  int flush() {
    std::vector<iovec> vectors;
    vectors.reserve(held_.size());
    for (const auto& piece : held_) {
      vectors.push_back({const_cast<uint8_t*>(piece->data()), static_cast<size_t>(piece->size())});
    }
    const int error = disk_.write(fd_, vectors);
    held_.clear();
    held_bytes_ = 0;
    return error;
  }

  uint64_t offset() const { return offset_; }
  SpillRun take() { return std::move(run_); }

 private:
  static constexpr int64_t WRITE_BYTES = 1 << 20;

  void hold(std::shared_ptr<arrow::Buffer> piece) {
    offset_ += static_cast<uint64_t>(piece->size());
    held_bytes_ += piece->size();
    held_.push_back(std::move(piece));
  }

  Disk& disk_;
  const int fd_;
  const uint32_t file_;
  uint64_t offset_;
  const int cpu_;
  SpillRun run_;
  Gathered::Pieces held_;
  int64_t held_bytes_ = 0;
};

}  // namespace fabric
