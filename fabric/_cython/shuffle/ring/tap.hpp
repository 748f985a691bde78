// A second reader of one port, for as long as it likes: sees what the consumer takes.
//
// One job: copies of items on their way out of a ring (rows are shared, not copied), in a bounded
// queue of their own. A lossy tap that is full counts the rows that it misses. A lossless one that
// is full holds the consumer back, and thereby the producers, as if the consumer had no room.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "item.hpp"
#include "waiting.hpp"

namespace fabric {

// Rows that a tap has seen since it began: given to its reader, and passed over.
struct TapTotals {
  uint64_t rows = 0, skipped = 0;
};

template <class Payload>
class Tap {
 public:
  using Clock = std::chrono::steady_clock;

  // A port holds what producers of other agents sent, too: only rows of `producers` count.
  Tap(std::set<uint32_t> producers, bool lossless, Bounds bounds)
      : producers_(std::move(producers)), lossless_(lossless), bounds_(bounds) {}

  const std::set<uint32_t>& producers() const { return producers_; }

  // ---- the port's side

  // It lies at `port`, which lives as long as `owner`.
  void attached(std::shared_ptr<void> owner, Port<Payload>& port, WaitList& consumers) {
    const std::lock_guard held(mutex_);
    owner_ = std::move(owner);
    port_ = &port;
    consumers_ = &consumers;
  }

  // Whether the consumer must leave `item` where it is; it is woken when that changes.
  bool holds_back(const Item<Payload>& item) {
    if (!lossless_ || !wants(item)) return false;
    const std::lock_guard held(mutex_);
    if (cut_ || fits(item.bytes)) return false;
    if (!blocks_.exchange(true)) blocks_since_ = Clock::now();
    return true;
  }
  bool blocks() const { return blocks_.load(); }

  void offer(const Item<Payload>& item) {
    if (!wants(item)) return;
    const std::lock_guard held(mutex_);
    if (cut_) return;
    if (lossless_ || fits(item.bytes)) {
      bytes_ += item.bytes;
      waiting_.push_back({item.payload, item.rows, item.bytes, totals_.skipped});
    } else {
      totals_.skipped += item.rows;
    }
    news_.signal();
  }

  void wake() { news_.signal(); }

  // ---- the reader's side

  // The port, once attached.
  Port<Payload>* port() {
    const std::lock_guard held(mutex_);
    return port_;
  }

  // What keeps the port alive; of the type it was attached with.
  template <class Owner>
  std::shared_ptr<Owner> owner() {
    const std::lock_guard held(mutex_);
    return std::static_pointer_cast<Owner>(owner_);
  }

  // The next rows and the totals up to and with them; false when none wait.
  bool take(Payload& rows, TapTotals& totals) {
    {
      const std::lock_guard held(mutex_);
      totals = totals_;
      if (waiting_.empty()) return false;
      Waiting& first = waiting_.front();
      rows = std::move(first.rows);
      bytes_ -= first.bytes;
      totals_.rows += first.n_rows;
      totals = {totals_.rows, first.skipped};
      waiting_.pop_front();
    }
    release();
    return true;
  }

  void wait(Deadline deadline) { news_.wait(deadline); }

  // From any thread: wants no more. What waits is freed with the tap.
  void cut() {
    {
      const std::lock_guard held(mutex_);
      cut_ = true;
    }
    release();
    news_.signal();
  }

  bool is_cut() const {
    const std::lock_guard held(mutex_);
    return cut_;
  }

  // Whether the consumer has been held back for so long.
  bool blocks_for(Clock::duration least) {
    const std::lock_guard held(mutex_);
    return blocks_.load() && Clock::now() - blocks_since_ > least;
  }

 private:
  struct Waiting {
    Payload rows;
    uint64_t n_rows, bytes, skipped;  // skipped: before these
  };

  bool wants(const Item<Payload>& item) const {
    return item.is_rows() && producers_.contains(item.producer);
  }

  bool fits(uint64_t bytes) const {
    return waiting_.empty() ||
           (waiting_.size() < bounds_.batches && bytes_ + bytes <= bounds_.bytes);
  }

  // The consumer may look again.
  void release() {
    if (blocks_.exchange(false)) consumers_->notify_all();
  }

  const std::set<uint32_t> producers_;
  const bool lossless_;
  const Bounds bounds_;
  mutable std::mutex mutex_;  // of all below but `blocks_` and `news_`
  std::shared_ptr<void> owner_;
  Port<Payload>* port_ = nullptr;
  WaitList* consumers_ = nullptr;
  std::deque<Waiting> waiting_;
  uint64_t bytes_ = 0;
  TapTotals totals_;
  bool cut_ = false;
  std::atomic<bool> blocks_{false};
  Clock::time_point blocks_since_;
  Waiter news_;
};

}  // namespace fabric
