// Messages that are made once and sent often: checksums, and IPC bytes where the edge compresses.
//
// One job: keep what the first reader of a partition made, in order, for those who read it again.
// Readers at the same place wait for the one who makes the next message. When its rows move to the
// disk it is dropped, and its readers go on there.
#pragma once
#include <mutex>

#include "store/budget.hpp"
#include "store/coalesce.hpp"
#include "store/payload.hpp"
#include "wire/check.hpp"

namespace fabric {

// A message with what its header says of it.
struct Stored {
  std::shared_ptr<arrow::RecordBatch> batch;  // null when the payload is enough
  std::shared_ptr<const arrow::ipc::IpcPayload> payload;
  int64_t n_rows = 0, n_bytes = 0;
  uint32_t crc32c = 0;
};

class Shelf {
 public:
  // `share` counts the bytes of payloads and outlives the shelf.
  Shelf(Coalescer messages, std::shared_ptr<arrow::util::Codec> codec, bool keep_batches, int cpu,
        Share& share)
      : messages_(std::move(messages)), options_(write_options(std::move(codec))),
        keep_batches_(keep_batches || options_.codec == nullptr), cpu_(cpu), share_(share) {}

  // Message `index`; false when there are no more, or they are gone from here.
  arrow::Result<bool> at(size_t index, Stored& out) {
    std::lock_guard lock(mutex_);
    while (index >= made_.size()) {
      ARROW_RETURN_NOT_OK(failed_);
      if (dropped_) return false;
      auto more = make_next();
      if (!more.ok()) return failed_ = more.status();
      if (!*more) return false;
    }
    out = made_[index];
    return true;
  }

  // Forget all; its source has no more rows.
  void drop() {
    std::deque<Stored> gone;
    std::lock_guard lock(mutex_);
    dropped_ = true;
    gone.swap(made_);
    share_.give_back(std::exchange(payload_bytes_, 0));
  }

 private:
  arrow::Result<bool> make_next() {
    ARROW_ASSIGN_OR_RAISE(auto batch, messages_.next());
    if (batch == nullptr) return false;
    Stored stored;
    stored.n_rows = batch->num_rows();
    stored.n_bytes = bytes_of_batch(*batch);
    ARROW_ASSIGN_OR_RAISE(stored.crc32c, crc32c_of(*batch, cpu_));
    if (options_.codec != nullptr) {
      ARROW_ASSIGN_OR_RAISE(auto payload, payload_of(*batch, options_));
      share_.take(payload.body_length);
      payload_bytes_ += payload.body_length;
      stored.payload = std::make_shared<const arrow::ipc::IpcPayload>(std::move(payload));
    }
    if (keep_batches_) stored.batch = std::move(batch);
    made_.push_back(std::move(stored));
    return true;
  }

  std::mutex mutex_;
  Coalescer messages_;
  const arrow::ipc::IpcWriteOptions options_;
  const bool keep_batches_;
  const int cpu_;
  Share& share_;
  std::deque<Stored> made_;
  int64_t payload_bytes_ = 0;
  bool dropped_ = false;
  arrow::Status failed_;
};

}  // namespace fabric
