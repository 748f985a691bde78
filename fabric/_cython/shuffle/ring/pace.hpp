// How much may wait for a consumer, by how fast it takes.
//
// One job: the bytes that a consumer takes in a given time, seen while it is busy. What waits is
// then worth that much time, whatever a row costs: a barrier, and each row, stays behind all that
// lies before it. One that rests for want of rows tells nothing about its pace.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace fabric {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto LOOK = std::chrono::milliseconds(50);
  static constexpr uint64_t BYTES_MIN = 4 << 10;

  // The consumer, before it takes: `wait_ns` is how long what waits may take it, of at most
  // `bytes_max`; one number a LOOK, and never less than half of the last.
  void look(uint64_t wait_ns, uint64_t bytes_max, Clock::time_point now) {
    if (rests_.exchange(false, std::memory_order_relaxed)) return begin(now);
    const auto busy = std::chrono::nanoseconds(now - since_).count();
    if (busy < std::chrono::nanoseconds(LOOK).count()) return;
    const double worth = static_cast<double>(taken_) * static_cast<double>(wait_ns) /
                         static_cast<double>(busy);
    const uint64_t least = std::max(bound(bytes_max) / 2, BYTES_MIN);
    const uint64_t found = worth < static_cast<double>(bytes_max)
                               ? std::max(static_cast<uint64_t>(worth), least)
                               : bytes_max;
    bound_.store(found, std::memory_order_relaxed);  // who sees it late waits by the last one
    begin(now);
  }
  void took(uint64_t bytes) { taken_ += bytes; }

  // It found nothing to take; from any thread.
  void rest() { rests_.store(true, std::memory_order_relaxed); }

  uint64_t bound(uint64_t bytes_max) const {
    return std::min(bytes_max, bound_.load(std::memory_order_relaxed));
  }

 private:
  void begin(Clock::time_point now) {
    since_ = now;
    taken_ = 0;
  }

  alignas(64) std::atomic<uint64_t> bound_{UINT64_MAX};  // producers read it, seldom written
  alignas(64) std::atomic<bool> rests_{true};             // from here on the consumer's own
  Clock::time_point since_;
  uint64_t taken_ = 0;
};

}  // namespace fabric
