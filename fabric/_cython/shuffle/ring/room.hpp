// The books of one partition: how much waits for it and may, how fast it is taken, who sent what.
//
// One job: counters without a lock, for `port.hpp`.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>

#include "item.hpp"

namespace fabric {

constexpr uint64_t ROOM_BATCHES_MAX = 1 << 14;
constexpr uint64_t ROOM_BYTES_MAX = uint64_t{1} << 47;

enum class Reserve { DONE, FULL, CLOSED };

// How much waits, and whether more may come: batches, bytes and "closed" in one word, so that one
// compare-and-swap decides whether a batch is let in. A batch fits when nothing else waits, or both
// bounds hold with it.
class Room {
 public:
  // Every access is seq_cst where a thread decides to sleep, or that nobody does (waiting.hpp).
  Reserve reserve(uint64_t bytes, Bounds bounds) {
    uint64_t word = word_.load(std::memory_order_seq_cst);
    do {
      if (word & CLOSED) return Reserve::CLOSED;
      if (!fits(word, bytes, bounds)) return Reserve::FULL;
      // weak and relaxed on failure: it is only tried again, with the word that was found
    } while (!word_.compare_exchange_weak(word, word + ONE + bytes, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return Reserve::DONE;
  }

  void release(uint64_t batches, uint64_t bytes) {
    word_.fetch_sub(batches * ONE + bytes, std::memory_order_seq_cst);
  }

  // Whether it was open until now.
  bool close() { return !(word_.fetch_or(CLOSED, std::memory_order_seq_cst) & CLOSED); }
  bool closed() const { return word_.load(std::memory_order_seq_cst) & CLOSED; }
  uint64_t bytes() const { return word_.load(std::memory_order_relaxed) & BYTES; }
  uint64_t batches() const {
    return (word_.load(std::memory_order_relaxed) & ~CLOSED) / ONE;
  }

  // Decides for those who wait, one after the other, as if each that fits were let in.
  auto admission(Bounds bounds, bool has_slot) const {
    return [word = word_.load(std::memory_order_seq_cst), bounds, has_slot](Need need) mutable {
      if (word & CLOSED) return true;
      if (!has_slot || (need.row && !fits(word, need.bytes, bounds))) return false;
      if (need.row) word += ONE + need.bytes;
      return true;
    };
  }

 private:
  static constexpr uint64_t CLOSED = uint64_t{1} << 63;
  static constexpr uint64_t ONE = uint64_t{1} << 48;  // a batch
  static constexpr uint64_t BYTES = ONE - 1;

  static bool fits(uint64_t word, uint64_t bytes, Bounds bounds) {
    const uint64_t batches = (word & ~CLOSED) / ONE;
    return batches == 0 || (batches < bounds.batches && (word & BYTES) + bytes <= bounds.bytes);
  }

  std::atomic<uint64_t> word_{0};
};

// What rounds of work cost, by their size; the last ones count most.
class RoundCosts {
 public:
  void add(double size, double time) {
    for (double* sum : {&n_, &x_, &y_, &xx_, &xy_}) *sum *= KEPT;
    n_ += 1;
    x_ += size;
    y_ += time;
    xx_ += size * size;
    xy_ += size * time;
  }

  // The size of the next rounds: `wanted`, if smaller rounds than the `last` cost less, else the
  // last size, or twice as much where hardly any of the cost follows the size. Rounds that were all
  // alike tell nothing: then it is `wanted`, or twice the last size if that is no less.
  uint64_t next(uint64_t wanted, uint64_t last) const {
    const double spread = n_ * xx_ - x_ * x_;
    if (spread <= ALIKE * x_ * x_) return wanted < last ? wanted : 2 * last;
    const double of_size = (n_ * xy_ - x_ * y_) / spread;  // of a line of least squares
    const double of_round = std::max(0., (y_ - of_size * x_) / n_);
    const double follows = of_size * static_cast<double>(last);
    if (follows <= LITTLE * (of_round + follows)) return 2 * last;
    return follows > MUCH * (of_round + follows) ? wanted : last;
  }

 private:
  static constexpr double KEPT = 0.9, ALIKE = 0.02, MUCH = 0.7, LITTLE = 0.5;
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

// How much may wait, by how fast its consumer takes: the bytes that it takes in a given time, seen
// while it is busy. What waits is then worth that much time, whatever a row costs: a barrier, and
// each row, stays behind all that lies before it. One that rests for want of rows tells nothing
// about its pace. Where a round costs about the same whatever it takes (state on disk), less would
// only mean more rounds: what waits shrinks no further than it saves time, and grows back.
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
    if (n_rounds_ > 0) {
      costs_.add(static_cast<double>(taken_) / static_cast<double>(n_rounds_),
                 static_cast<double>(busy) / static_cast<double>(n_rounds_));
    }
    const uint64_t last = bound(bytes_max);
    const double worth = static_cast<double>(taken_) * static_cast<double>(wait_ns) /
                         static_cast<double>(busy);
    uint64_t found = bytes_max;
    if (worth < static_cast<double>(bytes_max)) {
      found = std::max({static_cast<uint64_t>(worth), last / 2, BYTES_MIN});
    }
    if (found < last || found == BYTES_MIN) {
      found = std::min(bytes_max, costs_.next(found, last));
    }
    bound_.store(found, std::memory_order_relaxed);  // who sees it late waits by the last one
    begin(now);
  }
  void took(uint64_t bytes) {
    taken_ += bytes;
    n_rounds_ += bytes > 0;
  }

  // It found nothing to take; from any thread.
  void rest() { rests_.store(true, std::memory_order_relaxed); }

  uint64_t bound(uint64_t bytes_max) const {
    return std::min(bytes_max, bound_.load(std::memory_order_relaxed));
  }

 private:
  void begin(Clock::time_point now) {
    since_ = now;
    taken_ = n_rounds_ = 0;
  }

  alignas(64) std::atomic<uint64_t> bound_{UINT64_MAX};  // producers read it, seldom written
  alignas(64) std::atomic<bool> rests_{true};             // from here on the consumer's own
  Clock::time_point since_;
  uint64_t taken_ = 0, n_rounds_ = 0;
  RoundCosts costs_;
};

constexpr uint32_t PRODUCERS_MAX = 1 << 20;

// Rows that each producer has put into one partition, which its END must agree with: a counter by
// producer that grows without a lock and never moves. Producer p lies in bucket
// floor(log2(p / 64 + 1)); bucket b holds 64 << b counters and is made when first asked for.
class SentRows {
 public:
  SentRows() = default;
  SentRows(const SentRows&) = delete;
  SentRows& operator=(const SentRows&) = delete;
  ~SentRows() {
    for (auto& bucket : buckets_) delete[] bucket.load(std::memory_order_relaxed);
  }

  // The counter of `producer` < PRODUCERS_MAX. A producer is one thread at a time, so whoever
  // reads or writes it may do so relaxed.
  std::atomic<uint64_t>& of(uint32_t producer) {
    const uint32_t bucket = std::bit_width(producer / FIRST + 1) - 1;
    auto& place = buckets_[bucket];
    auto* counters = place.load(std::memory_order_acquire);  // acquire: their zeros
    if (counters == nullptr) counters = make(place, FIRST << bucket);
    return counters[producer - (FIRST << bucket) + FIRST];
  }

 private:
  using Counter = std::atomic<uint64_t>;
  static constexpr uint32_t FIRST = 64;
  static constexpr int N_BUCKETS = std::bit_width(PRODUCERS_MAX / FIRST) + 1;

  static Counter* make(std::atomic<Counter*>& place, uint32_t size) {
    auto made = std::make_unique<Counter[]>(size);
    Counter* found = nullptr;
    // release: the zeros for others; acquire: those of whoever was faster
    if (place.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
      return made.release();
    }
    return found;
  }

  std::atomic<Counter*> buckets_[N_BUCKETS] = {};
};

}  // namespace fabric
