// A bounded lock-free ring of items: many producers, one consumer at a time.
//
// One job: slots in order. A slot's sequence number says whose turn it is: `position` = free for
// the producer that claims this position, `position + 1` = filled, for the consumer; emptied it is
// `position + slots`, free for the next round. Producers claim positions by advancing `tail_`, so
// one stopped between claim and fill holds up the items behind it, but never another producer.
// How many batches and bytes may wait is `room.hpp`; sleeping and waking is `waiting.hpp`.
//
// Source: D. Vyukov, "Bounded MPMC queue", with a single consumer.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "item.hpp"

namespace fabric {

#ifdef PLANTED_RACE  // tests/native proves that ThreadSanitizer sees it
constexpr auto PUBLISH = std::memory_order_relaxed;
#else
constexpr auto PUBLISH = std::memory_order_seq_cst;
#endif

template <class Payload>
class Ring {
 public:
  explicit Ring(uint64_t slots_min)
      : n_slots_(std::bit_ceil(slots_min)), slots_(std::make_unique<Slot[]>(n_slots_)) {
    // relaxed: the ring is published to other threads by its owner's release store
    for (uint64_t i = 0; i < n_slots_; ++i) slots_[i].sequence.store(i, std::memory_order_relaxed);
  }

  // From any thread. False when every slot is taken; `item` is untouched then.
  bool push(Item<Payload>& item) {
    // relaxed: `tail_` only hands out positions; what a slot holds is ordered by its sequence
    uint64_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = at(position);
      // acquire: the consumer has moved the old item out before it set this number
      const uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(sequence - position);
      if (ahead < 0) return false;  // the consumer has not emptied it in this round
      if (ahead > 0) {              // another producer was faster
        position = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        slot.item = std::move(item);
        // release: the item before its number. seq_cst: before the look at who waits (waiting.hpp)
        slot.sequence.store(position + 1, PUBLISH);
        return true;
      }
    }
  }

  // Whether a producer could push now; from any thread.
  bool has_slot() const {
    const uint64_t position = tail_.load(std::memory_order_relaxed);
    return static_cast<int64_t>(sequence_at(position) - position) >= 0;
  }

  // The next item where it lies, or nullptr; the consumer only.
  Item<Payload>* front() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    // acquire: the producer's writes to the item. seq_cst: after entering the wait list
    return sequence_at(head) == head + 1 ? &at(head).item : nullptr;
  }

  // Takes the item that `front` showed; the consumer only.
  Item<Payload> pop() {
    // relaxed: only consumers write `head_`, and they hand over by acquire and release of a flag
    const uint64_t head = head_.load(std::memory_order_relaxed);
    Slot& slot = at(head);
    Item<Payload> item = std::move(slot.item);
    // release: the item is out before a producer of the next round may write the slot
    slot.sequence.store(head + n_slots_, std::memory_order_release);
    head_.store(head + 1, std::memory_order_relaxed);
    return item;
  }

  // Whether an item waits; from any thread, a hint for all but the consumer.
  bool ready() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    return sequence_at(head) == head + 1;
  }

 private:
  struct alignas(64) Slot {  // one cache line: neighbours are written by other threads
    std::atomic<uint64_t> sequence;
    Item<Payload> item;
  };

  Slot& at(uint64_t position) const { return slots_[position & (n_slots_ - 1)]; }
  uint64_t sequence_at(uint64_t position) const {
    return at(position).sequence.load(std::memory_order_seq_cst);
  }

  const uint64_t n_slots_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // producers
  alignas(64) std::atomic<uint64_t> head_{0};  // consumer
};

}  // namespace fabric
