// Rows that each producer has put into one partition: what its END must agree with.
//
// One job: a counter by producer that grows without a lock and never moves. Producer p lies in
// bucket floor(log2(p / 64 + 1)); bucket b holds 64 << b counters and is made when first asked for.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace fabric {

constexpr uint32_t PRODUCERS_MAX = 1 << 20;

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
