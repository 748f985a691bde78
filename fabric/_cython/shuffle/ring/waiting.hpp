// Waiting for one of several things, without spinning and without a lock while nobody waits.
//
// One job: `Waiter`, a thread that sleeps until it is signalled, and `WaitList`, those who wait for
// one thing. A thread that found nothing enters the list of every thing it could use, looks once
// more, and sleeps; who made something looks at `count_`, one load, and only when somebody waits
// takes the list's mutex. No wake is lost, because both sides write first and then look, and all
// four accesses are seq_cst: the waiter raises `count_` and looks at the thing, the maker makes the
// thing and looks at `count_`. In their one total order at least one of the two sees the other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "item.hpp"
#include "wire/condition.hpp"

namespace fabric {

// A thread that sleeps; a signal that comes before the sleep ends it at once.
class Waiter {
 public:
  // From any thread. Wakes under the mutex, so that the sleeper can't be gone meanwhile.
  void signal() {
    std::lock_guard held(mutex_);
    if (signalled_) return;
    signalled_ = true;
    wakes_.notify_one();
  }

  // Sleeps until signalled or until `deadline`; whether it was a signal, which is used up.
  bool wait(Deadline deadline = NEVER) {
    std::unique_lock held(mutex_);
    const auto ready = [this] { return signalled_; };
    if (deadline == NEVER) {
      wait_until_true(wakes_, held, ready);
    } else {
      wakes_.wait_until(held, deadline, ready);
    }
    const bool was = signalled_;
    signalled_ = false;
    return was;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool signalled_ = false;
};

// Those who wait for one thing, in the order in which they came.
class alignas(64) WaitList {
 public:
  bool empty() const { return count_.load(std::memory_order_seq_cst) == 0; }

  void add(Waiter& waiter, Need need = {}) {
    std::lock_guard held(mutex_);
    waiting_.push_back({&waiter, need});
    count_.fetch_add(1, std::memory_order_seq_cst);  // before the waiter's second look
  }

  // Takes `waiter` out; false when somebody had signalled it and taken it out already. After this
  // no other thread touches it by way of this list.
  bool remove(Waiter& waiter) {
    std::lock_guard held(mutex_);
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      if (at->waiter == &waiter) {
        waiting_.erase(at);
        count_.fetch_sub(1, std::memory_order_relaxed);  // nobody decides by a smaller count
        return true;
      }
    }
    return false;
  }

  // Signals and takes out those whose need `fits`, first come first asked.
  template <class Fits>
  void notify(Fits&& fits) {
    if (empty()) return;
    std::lock_guard held(mutex_);
    size_t kept = 0;
    for (const Entry& entry : waiting_) {
      if (fits(entry.need)) {
        entry.waiter->signal();
      } else {
        waiting_[kept++] = entry;
      }
    }
    count_.fetch_sub(static_cast<uint32_t>(waiting_.size() - kept), std::memory_order_relaxed);
    waiting_.resize(kept);
  }

  void notify_all() {
    notify([](const Need&) { return true; });
  }

 private:
  struct Entry {
    Waiter* waiter;
    Need need;
  };
  std::atomic<uint32_t> count_{0};
  std::mutex mutex_;
  std::vector<Entry> waiting_;
};

}  // namespace fabric
