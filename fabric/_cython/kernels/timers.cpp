// A binary heap of timers beside a hash set of what is set.
//
// One job: the bodies of timers.hpp. What is removed leaves the set at once and the heap when it
// comes up; a heap that is mostly leftovers is made anew.
#include "timers.hpp"

#include <algorithm>

namespace fabric {

namespace {

struct Later {
  bool operator()(const Timer& a, const Timer& b) const {
    return a.time != b.time ? a.time > b.time : a.key > b.key;
  }
};

}  // namespace

// Open addressing, linear probing, no tombstones: what follows a gap is moved back into it.
class TimerSet {
 public:
  bool insert(Timer timer) {
    if (n_ * 4 >= slots_.size() * 3) grow();
    const size_t at = find(timer);
    if (used_[at]) return false;
    slots_[at] = timer;
    used_[at] = 1;
    ++n_;
    return true;
  }

  bool erase(Timer timer) {
    if (n_ == 0) return false;
    size_t gap = find(timer);
    if (!used_[gap]) return false;
    const size_t mask = slots_.size() - 1;
    for (size_t at = (gap + 1) & mask; used_[at]; at = (at + 1) & mask) {
      if (((at - home(slots_[at])) & mask) >= ((at - gap) & mask)) {
        slots_[gap] = slots_[at];
        gap = at;
      }
    }
    used_[gap] = 0;
    --n_;
    return true;
  }

  bool contains(Timer timer) const { return n_ > 0 && used_[find(timer)]; }
  size_t size() const { return n_; }
  size_t n_bytes() const { return slots_.capacity() * sizeof(Timer) + used_.capacity(); }

  template <class Visit>
  void each(Visit visit) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (used_[i]) visit(slots_[i]);
    }
  }

 private:
  size_t home(Timer timer) const {  // the finaliser of splitmix64, over both words
    uint64_t x = static_cast<uint64_t>(timer.time) * 0x9E3779B97F4A7C15ULL +
                 static_cast<uint64_t>(timer.key);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<size_t>(x ^ (x >> 31)) & (slots_.size() - 1);
  }

  size_t find(Timer timer) const {
    size_t at = home(timer);
    while (used_[at] && !(slots_[at] == timer)) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void grow() {
    const size_t n = std::max<size_t>(64, slots_.size() * 2);
    std::vector<Timer> slots(n);
    std::vector<uint8_t> used(n, 0);
    slots.swap(slots_);
    used.swap(used_);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!used[i]) continue;
      const size_t at = find(slots[i]);
      slots_[at] = slots[i];
      used_[at] = 1;
    }
  }

  std::vector<Timer> slots_;
  std::vector<uint8_t> used_;
  size_t n_ = 0;
};

class TimerQueue::Core {
 public:
  int64_t add(const int64_t* times, const int64_t* keys, int64_t n) {
    int64_t n_new = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Timer timer{times[i], keys[i]};
      if (!set_.insert(timer)) continue;
      ++n_new;
      heap_.push_back(timer);
      std::push_heap(heap_.begin(), heap_.end(), Later());
    }
    return n_new;
  }

  int64_t remove(const int64_t* times, const int64_t* keys, int64_t n) {
    int64_t n_gone = 0;
    for (int64_t i = 0; i < n; ++i) n_gone += set_.erase(Timer{times[i], keys[i]});
    if (heap_.size() > 2 * set_.size() + 64) remake();
    return n_gone;
  }

  void due(int64_t time, std::vector<int64_t>& times, std::vector<int64_t>& keys) {
    while (!heap_.empty() && heap_.front().time <= time) {
      const Timer first = heap_.front();
      pop();
      if (!set_.erase(first)) continue;
      times.push_back(first.time);
      keys.push_back(first.key);
    }
  }

  std::vector<Timer> sorted() const {
    std::vector<Timer> all;
    all.reserve(set_.size());
    set_.each([&](Timer timer) { all.push_back(timer); });
    std::sort(all.begin(), all.end(), [](Timer a, Timer b) { return Later()(b, a); });
    return all;
  }

  int64_t size() const { return static_cast<int64_t>(set_.size()); }
  int64_t n_bytes() const {
    return static_cast<int64_t>(set_.n_bytes() + heap_.capacity() * sizeof(Timer));
  }

 private:
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    heap_.pop_back();
  }

  void remake() {
    heap_.clear();
    set_.each([&](Timer timer) { heap_.push_back(timer); });
    std::make_heap(heap_.begin(), heap_.end(), Later());
  }

  TimerSet set_;
  std::vector<Timer> heap_;
};

// --- what others see ----------------------------------------------------------------------------

TimerQueue::TimerQueue() : core_(std::make_unique<Core>()) {}
TimerQueue::~TimerQueue() = default;

int64_t TimerQueue::add(const int64_t* times, const int64_t* keys, int64_t n) {
  return core_->add(times, keys, n);
}
int64_t TimerQueue::remove(const int64_t* times, const int64_t* keys, int64_t n) {
  return core_->remove(times, keys, n);
}
void TimerQueue::due(int64_t time, std::vector<int64_t>& times, std::vector<int64_t>& keys) {
  core_->due(time, times, keys);
}
std::vector<Timer> TimerQueue::sorted() const { return core_->sorted(); }
int64_t TimerQueue::size() const { return core_->size(); }
int64_t TimerQueue::n_bytes() const { return core_->n_bytes(); }

}  // namespace fabric
