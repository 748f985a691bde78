// What clients have put into a stream and nobody has read yet, and what is safe of it.
//
// One job: a bounded queue of messages, counted by writer. Puts wait for room; readers never wait.
// A writer with a name has its messages numbered for ever, so that after a failure it goes on where
// the last checkpoint stands. Thread-safe.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "flight/handlers.hpp"
#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {

constexpr size_t STREAM_WRITERS_MAX = 10000;

struct StreamMessage {
  std::string writer;
  uint64_t number = 0;
  std::shared_ptr<arrow::RecordBatch> batch;
};

class StreamQueue {
 public:
  StreamQueue(std::string name, std::shared_ptr<arrow::Schema> schema, uint32_t split,
              uint32_t n_splits, int64_t bytes_max, bool at_once)
      : name(std::move(name)), schema(std::move(schema)), split(split), n_splits(n_splits),
        bytes_max_(bytes_max), at_once_(at_once) {}

  const std::string name;
  const std::shared_ptr<arrow::Schema> schema;
  const uint32_t split, n_splits;

  // Begin to put as `writer` (empty: as somebody new); the name to put under, and how many of its
  // messages are here already.
  arrow::Result<std::pair<std::string, uint64_t>> attach(std::string writer) {
    std::lock_guard lock(mutex_);
    if (closed_) return over();
    if (writer.empty()) writer = "#" + std::to_string(++n_unnamed_);
    if (writers_.size() >= STREAM_WRITERS_MAX && writers_.count(writer) == 0) {
      return fault("ConfigError", "stream " + quoted(name) + " has had " +
                                      std::to_string(STREAM_WRITERS_MAX) +
                                      " writers, there is room for no other; put without a name");
    }
    Writer& found = writers_[writer];
    if (found.writing) {
      return fault("ConfigError", "writer " + quoted(writer) + " puts into stream " +
                                      quoted(name) + " already; wait until that put has ended");
    }
    found.writing = true;
    return std::make_pair(writer, found.received);
  }

  void detach(const std::string& writer) {
    std::lock_guard lock(mutex_);
    writers_[writer].writing = false;
  }

  // Waits for room.
  arrow::Status push(const std::string& writer, std::shared_ptr<arrow::RecordBatch> batch,
                     const Cancelled& cancelled) {
    const int64_t n_bytes = arrow::util::TotalBufferSize(*batch);
    std::unique_lock lock(mutex_);
    while (!closed_ && !waiting_.empty() && bytes_ + n_bytes > bytes_max_) {
      if (cancelled()) return gone();
      changed_.wait_for(lock, PATIENCE);
    }
    if (closed_) return over();
    Writer& found = writers_[writer];
    waiting_.push_back({{writer, found.received++, std::move(batch)}, n_bytes});
    bytes_ += n_bytes;
    if (at_once_) found.safe = found.received;
    changed_.notify_all();
    return arrow::Status::OK();
  }

  // The next message; false when there is none.
  bool take(StreamMessage& out) {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    out = std::move(waiting_.front().message);
    bytes_ -= waiting_.front().n_bytes;
    waiting_.pop_front();
    changed_.notify_all();
    return true;
  }

  // So many messages of `writer` will not be asked for again.
  void acknowledge(const std::string& writer, uint64_t count) {
    std::lock_guard lock(mutex_);
    const auto found = writers_.find(writer);
    if (found == writers_.end() || found->second.safe >= count) return;
    found->second.safe = count;
    changed_.notify_all();
  }

  // Before the first put: so many messages of `writer` were read in an earlier run.
  void seek(const std::string& writer, uint64_t count) {
    std::lock_guard lock(mutex_);
    writers_[writer] = Writer{count, count, false};
  }

  // Waits until more than `told` messages of `writer` are safe, and says how many; false at the
  // end of the stream or when `over`.
  bool wait_safe(const std::string& writer, uint64_t& told, const std::atomic<bool>& over) {
    std::unique_lock lock(mutex_);
    while (!closed_ && !over.load()) {
      const uint64_t safe = writers_[writer].safe;
      if (safe > told) {
        told = safe;
        return true;
      }
      changed_.wait_for(lock, PATIENCE);
    }
    return false;
  }

  // Waits until all messages of `writer` are safe; how many those are.
  arrow::Result<uint64_t> wait_all_safe(const std::string& writer, const Cancelled& cancelled) {
    std::unique_lock lock(mutex_);
    const Writer& found = writers_[writer];
    while (found.safe < found.received) {
      if (closed_) {
        return fault("PeerLostError", "stream " + quoted(name) + " is not read here any more: " +
                                          std::to_string(found.safe) + " of " +
                                          std::to_string(found.received) +
                                          " messages are safe; put the others again");
      }
      if (cancelled()) return gone();
      changed_.wait_for(lock, PATIENCE);
    }
    const uint64_t safe = found.safe;
    if (writer[0] == '#') writers_.erase(writer);
    return safe;
  }

  void wake() { changed_.notify_all(); }

  // Nobody reads it any more: puts end with an error.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_.clear();
    bytes_ = 0;
    changed_.notify_all();
  }

 private:
  struct Writer {
    uint64_t received = 0, safe = 0;
    bool writing = false;
  };
  struct Waiting {
    StreamMessage message;
    int64_t n_bytes;
  };
  static constexpr std::chrono::milliseconds PATIENCE{250};

  arrow::Status over() const {
    return fault("PeerLostError",
                 "stream " + quoted(name) + " is not read here any more; ask where it is, and put "
                 "again what was not acknowledged");
  }
  static arrow::Status gone() {
    return fault("PeerLostError", "the put broke off: its client went away before its end, or "
                                  "this agent is shutting down");
  }

  const int64_t bytes_max_;
  const bool at_once_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::map<std::string, Writer> writers_;
  int64_t bytes_ = 0;
  uint64_t n_unnamed_ = 0;
  bool closed_ = false;
};

}  // namespace fabric
