// How much waits for one partition, and whether more may come.
//
// One job: batches, bytes and "closed" in one word, so that one compare-and-swap decides whether a
// batch is let in. A batch fits when nothing else waits, or both bounds hold with it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "waiting.hpp"

namespace fabric {

constexpr uint64_t ROOM_BATCHES_MAX = 1 << 14;
constexpr uint64_t ROOM_BYTES_MAX = uint64_t{1} << 47;

// What an edge allows to wait for each of its partitions.
struct Bounds {
  uint64_t batches, bytes;
};

enum class Reserve { DONE, FULL, CLOSED };

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

}  // namespace fabric
