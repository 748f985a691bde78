// Timers: (time, key) pairs, each at most once, handed out in order when they are due.
//
// One job: `TimerQueue`. What is removed is set no longer at once. How it is done lives in
// timers.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace fabric {

struct Timer {
  int64_t time;
  int64_t key;
  bool operator==(const Timer& other) const { return time == other.time && key == other.key; }
};

class TimerQueue {
 public:
  TimerQueue();
  ~TimerQueue();

  // Set timers, unset them; how many were not set before, or were.
  int64_t add(const int64_t* times, const int64_t* keys, int64_t n);
  int64_t remove(const int64_t* times, const int64_t* keys, int64_t n);

  // Those of at most `time`, by time and then by key; they are set no longer.
  void due(int64_t time, std::vector<int64_t>& times, std::vector<int64_t>& keys);

  // The time of the first one, or `none`.

  std::vector<Timer> sorted() const;
  int64_t size() const;
  int64_t n_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace fabric
