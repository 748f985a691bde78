// One partition of one pipelined edge: a ring, its room, its totals, and who waits for it.
//
// One job: put and take without waiting, and tell the other side. Nothing is destroyed in here
// but by whoever calls: items that are dropped are handed out, so that a payload whose destructor
// takes another lock (Python's) never meets a lock of ours.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ring.hpp"
#include "room.hpp"
#include "tap.hpp"
#include "waiting.hpp"

namespace fabric {

constexpr uint64_t EVENTS_WAITING = 192;
// Slots of a ring beside those for its batches. Events cost no room, but every queue is bounded:
// when this many lie unread in one partition, the next one waits for its consumer as a batch does.

enum class Put { DONE, FULL, WRONG_TOTAL, BAD_PRODUCER };

// What an edge allows to wait for each of its partitions: batches, bytes, and how long its consumer
// may take for those (0: as long as it likes).
struct PortLimits {
  std::atomic<uint64_t> batches, bytes, wait_ns;
};

// The taps of one port. Only its consumer calls `pass` and `holds_back`.
template <class Payload>
class Taps {
 public:
  void add(std::shared_ptr<Tap<Payload>> tap) {
    const std::lock_guard held(mutex_);
    taps_.push_back(std::move(tap));
    n_taps_.store(taps_.size());
  }

  void remove(const Tap<Payload>& tap) {
    const std::lock_guard held(mutex_);
    std::erase_if(taps_, [&](const auto& one) { return one.get() == &tap; });
    n_taps_.store(taps_.size());
  }

  bool empty() const { return n_taps_.load() == 0; }

  bool holds_back(const Item<Payload>& item) {
    const std::lock_guard held(mutex_);
    return held_back(item);
  }

  // Shows `item` to all; false, and to none, when one of them has no room.
  bool pass(const Item<Payload>& item) {
    const std::lock_guard held(mutex_);
    if (held_back(item)) return false;
    for (const auto& tap : taps_) tap->offer(item);
    return true;
  }

  bool block() {
    const std::lock_guard held(mutex_);
    return std::ranges::any_of(taps_, [](const auto& tap) { return tap->blocks(); });
  }

  void wake() {
    const std::lock_guard held(mutex_);
    for (const auto& tap : taps_) tap->wake();
  }

 private:
  bool held_back(const Item<Payload>& item) {
    return std::ranges::any_of(taps_, [&](const auto& tap) { return tap->holds_back(item); });
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Tap<Payload>>> taps_;
  std::atomic<size_t> n_taps_{0};
};

template <class Payload>
class Port {
 public:
  using Element = Item<Payload>;

  Port(uint32_t edge, uint32_t partition, const PortLimits& limits)
      : edge(edge), partition(partition), limits_(limits) {}
  ~Port() {
    delete ring_.load(std::memory_order_relaxed);
    delete taps_.load(std::memory_order_relaxed);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const uint32_t edge, partition;
  WaitList consumers;  // who waits for an item
  WaitList producers;  // who waits for room
  WaitList granters;   // who tells producers elsewhere of room; has nothing to put in

  // From any thread. The item is in, or the port is closed and the item is left to the caller, or
  // it does not fit now. What a closed port still held is moved to `dropped`.
  Put put(Element& item, std::vector<Element>& dropped) {
    if (item.producer >= PRODUCERS_MAX) return Put::BAD_PRODUCER;
    const uint64_t sent = sent_rows(item.producer);
    if (item.kind == Kind::END && item.rows != sent) return Put::WRONG_TOTAL;
    const uint64_t rows = item.is_rows() ? item.rows : 0;
    const bool urgent = item.kind >= Kind::BARRIER;
    switch (admit(item)) {
      case Reserve::FULL:
        consumers.notify_all();  // nobody gathers while a producer waits
        return Put::FULL;
      case Reserve::CLOSED: break;
      case Reserve::DONE:
        tell(urgent);
        // The port may have been closed and drained between admission and push.
        if (room_.closed()) drain(dropped);
    }
    sent_.of(item.producer).store(sent + rows, std::memory_order_relaxed);
    return Put::DONE;
  }

  // Up to `n` items, each given to `out`, and no more once they hold `bytes_max`; how many. One
  // consumer at a time: another one meanwhile finds nothing. `dropped` gets what a close or a
  // cancel beside this call had to leave.
  template <class Out>
  size_t take(size_t n, Out&& out, std::vector<Element>& dropped, uint64_t bytes_max = UINT64_MAX) {
    const size_t taken = pop(n, bytes_max, out, tapped());
    if (room_.closed()) drain(dropped);
    return taken;
  }

  // What `take` would give; its consumer only.
  Head peek(std::vector<Element>& dropped) {
    Head head;
    {
      const Consuming mine(consuming_);
      Ring<Payload>* ring = ring_.load(std::memory_order_seq_cst);
      const Element* item = mine.got && ring != nullptr ? ring->front() : nullptr;
      Taps<Payload>* taps = tapped();
      if (item != nullptr && taps != nullptr && taps->holds_back(*item)) item = nullptr;
      if (item != nullptr) head = {true, item->is_rows(), item->is_rows() ? item->bytes : 0};
    }
    if (room_.closed()) drain(dropped);
    return head;
  }

  bool ready() const {
    if (!filled()) return false;
    Taps<Payload>* taps = tapped();
    return taps == nullptr || !taps->block();
  }

  // Whether a watermark of `until` or more was put here; it may have been taken since.
  bool reached(int64_t until) const {
    return until <= furthest_.load(std::memory_order_seq_cst);
  }
  // Its consumer rests until a watermark of so much; INT64_MIN: it does not.
  int64_t silent_until() const {
    return watched() ? INT64_MIN : silent_until_.load(std::memory_order_relaxed);
  }
  void set_silent(int64_t until) { silent_until_.store(until, std::memory_order_relaxed); }
  // Whether somebody beside its consumer looks at what that takes.
  bool watched() const { return tapped() != nullptr; }

  // Whether what waits here must not wait for more: a barrier or an end, half of all that may
  // wait, or a producer that found no room.
  bool presses() const {
    return n_urgent_.load(std::memory_order_seq_cst) > 0 || crowded() || !producers.empty();
  }

  // No more is wanted: what waits goes to `dropped`, what comes is left to its producer.
  void close(std::vector<Element>& dropped) {
    room_.close();
    drain(dropped);
    consumers.notify_all();
    producers.notify_all();
    granters.notify_all();
    if (Taps<Payload>* taps = tapped()) taps->wake();
  }

  // From now on `tap` sees what the consumer takes. `owner` keeps this port alive; the tap keeps
  // `owner` until `remove`.
  void add(std::shared_ptr<Tap<Payload>> tap, std::shared_ptr<void> owner) {
    tap->attached(std::move(owner), *this, consumers);
    Taps<Payload>* taps = taps_.load(std::memory_order_seq_cst);
    if (taps == nullptr) {
      auto made = std::make_unique<Taps<Payload>>();
      // seq_cst: as in `slots`
      if (taps_.compare_exchange_strong(taps, made.get())) taps = made.release();
    }
    taps->add(std::move(tap));
  }
  void remove(const Tap<Payload>& tap) {
    if (Taps<Payload>* taps = taps_.load(std::memory_order_seq_cst)) taps->remove(tap);
  }

  // Whether the consumer has taken the END of each of these.
  bool ended(const std::set<uint32_t>& producers) const {
    const std::lock_guard held(ending_);
    return std::ranges::includes(ended_, producers);
  }

  // Its consumer is a native thread: who puts from Python leaves it nothing that needs the GIL.
  void set_native() { native_.store(true, std::memory_order_relaxed); }
  bool native() const { return native_.load(std::memory_order_relaxed); }

  bool closed() const { return room_.closed(); }
  uint64_t bytes() const { return room_.bytes(); }
  // How many may wait now.
  uint64_t bytes_max() const {
    return pace_.bound(limits_.bytes.load(std::memory_order_relaxed));
  }
  // Its consumer waits for an item.
  void rest() { pace_.rest(); }
  uint64_t batches() const { return room_.batches(); }
  uint64_t sent_rows(uint32_t producer) {
    return sent_.of(producer).load(std::memory_order_relaxed);
  }

  // Wakes the producers for whom there is room now. To be called by whoever made room, and by a
  // producer that was woken here after it tried again, for it may not have needed all of it.
  void wake_producers() {
    if (producers.empty() && granters.empty()) return;
    const Ring<Payload>* ring = ring_.load(std::memory_order_seq_cst);
    auto admits = room_.admission(bounds(), ring == nullptr || ring->has_slot());
    producers.notify(admits);
    granters.notify(admits);
  }

 private:
  // The right to consume. Only a second consumer, or a close or cancel beside the consumer, ever
  // finds it taken, and goes away instead of waiting.
  struct Consuming {
    explicit Consuming(std::atomic<bool>& flag)
        : flag(flag), got(!flag.exchange(true, std::memory_order_seq_cst)) {}
    ~Consuming() {
      if (got) flag.store(false, std::memory_order_seq_cst);  // before `drain` looks again
    }
    std::atomic<bool>& flag;
    const bool got;
  };

  Bounds bounds() const {
    return {limits_.batches.load(std::memory_order_relaxed), bytes_max()};
  }

  bool crowded() const {
    const Bounds most = bounds();
    return 2 * room_.bytes() >= most.bytes || 2 * room_.batches() >= most.batches;
  }

  // Wakes those who wait for an item; who gathers only if it must not wait.
  void tell(bool urgent) {
    if (consumers.empty()) return;
    const bool presses = urgent || crowded();
    consumers.notify(
        [&](const Need& need) { return presses || !need.gathers || reached(need.until); });
  }

  Reserve admit(Element& item) {
    if (!item.is_rows()) {
      if (room_.closed()) return Reserve::CLOSED;
      const bool urgent = item.kind >= Kind::BARRIER;
      // seq_cst: before the look at who gathers, who looks at it after entering the list
      if (urgent) n_urgent_.fetch_add(1, std::memory_order_seq_cst);
      if (item.kind == Kind::WATERMARK) advance(item.value);
      if (slots().push(item)) return Reserve::DONE;
      if (urgent) n_urgent_.fetch_sub(1, std::memory_order_relaxed);
      return Reserve::FULL;
    }
    const uint64_t bytes = item.bytes = std::min(item.bytes, ROOM_BYTES_MAX);
    const Reserve reserved = room_.reserve(bytes, bounds());
    if (reserved != Reserve::DONE || slots().push(item)) return reserved;
    room_.release(1, bytes);  // events fill every slot; others may have found the room taken
    wake_producers();
    return Reserve::FULL;
  }

  void advance(int64_t time_us) {
    int64_t known = furthest_.load(std::memory_order_relaxed);
    // seq_cst: before the look at who gathers, as above
    while (known < time_us && !furthest_.compare_exchange_weak(known, time_us)) {
    }
  }

  bool filled() const {
    const Ring<Payload>* ring = ring_.load(std::memory_order_seq_cst);
    return ring != nullptr && ring->ready();
  }

  // The taps, when there are any now. One load is all that a port without taps pays.
  Taps<Payload>* tapped() const {
    Taps<Payload>* taps = taps_.load(std::memory_order_seq_cst);
    return taps == nullptr || taps->empty() ? nullptr : taps;
  }

  template <class Out>
  size_t pop(size_t n, uint64_t bytes_max, Out&& out, Taps<Payload>* taps) {
    size_t taken = 0;
    uint64_t batches = 0, bytes = 0;
    {
      const Consuming mine(consuming_);
      Ring<Payload>* ring = ring_.load(std::memory_order_seq_cst);
      if (!mine.got || ring == nullptr) return 0;
      if (const uint64_t wait_ns = limits_.wait_ns.load(std::memory_order_relaxed)) {
        pace_.look(wait_ns, limits_.bytes.load(std::memory_order_relaxed), Pace::Clock::now());
      }
      const auto more = [&] { return taken < n && bytes < bytes_max; };
      for (const Element* next; more() && (next = ring->front()) != nullptr; ++taken) {
        if (taps != nullptr && !taps->pass(*next)) break;
        Element item = ring->pop();
        batches += item.is_rows();
        bytes += item.is_rows() ? item.bytes : 0;
        if (item.kind == Kind::END) note_end(item.producer);
        if (item.kind >= Kind::BARRIER) n_urgent_.fetch_sub(1, std::memory_order_relaxed);
        out(std::move(item));
      }
      pace_.took(bytes);
    }
    if (taken == 0) return 0;
    room_.release(batches, bytes);  // also for events alone: it orders their slots before the look
    wake_producers();
    return taken;
  }

  // Empties a closed port. Who is turned away here was seen by the one inside, for that one looks
  // whether the port is closed after it gave the flag back.
  void drain(std::vector<Element>& dropped) {
    const auto drop = [&](Element&& item) { dropped.push_back(std::move(item)); };
    while (pop(SIZE_MAX, UINT64_MAX, drop, nullptr) > 0 ||
           (filled() && !consuming_.load(std::memory_order_seq_cst))) {
    }
  }

  // Once a producer. Taps saw its rows before; one that came meanwhile is woken too.
  void note_end(uint32_t producer) {
    {
      const std::lock_guard held(ending_);
      ended_.insert(producer);
    }
    if (Taps<Payload>* taps = tapped()) taps->wake();
  }

  // The ring, made at the first put: by then its edge's bounds were declared by its producers.
  Ring<Payload>& slots() {
    Ring<Payload>* ring = ring_.load(std::memory_order_acquire);  // acquire: its first numbers
    if (ring != nullptr) return *ring;
    const uint64_t batches = std::min(bounds().batches, ROOM_BATCHES_MAX);
    auto made = std::make_unique<Ring<Payload>>(batches + EVENTS_WAITING);
    // release: the numbers for others; acquire: those of whoever was faster
    // seq_cst: before the look at who waits, like the push that follows.
    if (ring_.compare_exchange_strong(ring, made.get(), std::memory_order_seq_cst)) {
      return *made.release();
    }
    return *ring;
  }

  const PortLimits& limits_;
  std::atomic<Ring<Payload>*> ring_{nullptr};
  std::atomic<Taps<Payload>*> taps_{nullptr};  // made by the first tap, kept
  mutable std::mutex ending_;
  std::set<uint32_t> ended_;  // producers whose END was taken
  std::atomic<bool> native_{false};
  std::atomic<uint32_t> n_urgent_{0};  // barriers and ends that wait
  std::atomic<int64_t> furthest_{INT64_MIN};  // the highest watermark of any producer
  std::atomic<int64_t> silent_until_{INT64_MIN};
  alignas(64) Room room_;
  alignas(64) std::atomic<bool> consuming_{false};
  Pace pace_;  // who consumes looks and tells
  SentRows sent_;
};

}  // namespace fabric
