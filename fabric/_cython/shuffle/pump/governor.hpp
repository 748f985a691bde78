// How much is on its way from one peer: the reduce-side governor.
//
// One job: bytes that came or were asked for and nobody took yet, and requests in flight, both
// bounded for each peer. A stream that holds no bytes is always let in, so each can move one
// message at a time. Requests wait only where they depend on nobody here but the disk (a task that
// gathers all of its input): those of streams whose readers may wait for each other do not.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace fabric {

struct PeerBounds {
  int64_t bytes = 64 << 20;
  int64_t requests = 16;
};

class Governor {
 public:
  explicit Governor(PeerBounds bounds) : bounds_(bounds) {}

  // Wait a moment for a request to be let in; whether it was.
  bool begin(std::chrono::milliseconds moment) {
    std::unique_lock lock(mutex_);
    const bool free = changed_.wait_for(lock, moment, [&] { return requests_ < bounds_.requests; });
    if (free) ++requests_;
    return free;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --requests_;
    changed_.notify_all();
  }

  // The same for bytes.
  bool reserve(int64_t n_bytes, bool holds_some, std::chrono::milliseconds moment) {
    std::unique_lock lock(mutex_);
    const bool fits = changed_.wait_for(
        lock, moment, [&] { return !holds_some || bytes_ + n_bytes <= bounds_.bytes; });
    if (fits) bytes_ += n_bytes;
    return fits;
  }
  // More or fewer than were reserved; fewer when they are gone.
  void add(int64_t n_bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ += n_bytes;
    if (n_bytes < 0) changed_.notify_all();
  }

  int64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  int64_t requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  const PeerBounds bounds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t bytes_ = 0, requests_ = 0;
};

}  // namespace fabric
