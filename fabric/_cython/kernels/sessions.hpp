// Sessions: windows of one group that grow with each row and become one when they touch.
//
// One job: `SessionTable` keeps the open sessions of each group in a list from the latest to the
// earliest; they never overlap or touch, so a row joins at most two of them. A session has a slot,
// by which the caller keeps its sums. Ends only grow: they lie in a heap as they were when put
// there, and one that turns out to be out of date goes back with its true end.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace fabric {

struct Session {
  int64_t group, start, end;
  int64_t earlier;  // the next one of the list, or -1
  uint64_t born;    // which session of this slot it is: tells heap entries of former ones
  bool open, given;
};

struct Closing {
  int64_t end, slot;
  uint64_t born;
};

struct ClosesLater {
  bool operator()(const Closing& a, const Closing& b) const {
    return a.end != b.end ? a.end > b.end : a.slot > b.slot;
  }
};

class SessionTable {
 public:
  SessionTable(int64_t gap, int64_t last, bool updates)
      : gap_(gap), last_(last), updates_(updates) {}

  // Sessions of rows: `slots` one a row; of sessions that became one, `from` went into `into`, to
  // be folded in this order after all rows were added to their slots.
  void assign(const int64_t* groups, const int64_t* times, int64_t n, int64_t* slots,
              std::vector<int64_t>& from, std::vector<int64_t>& into) {
    reuse();
    for (int64_t i = 0; i < n; ++i) {
      slots[i] = join(groups[i], times[i], end_of(times[i]), from, into);
    }
    for (int64_t i = 0; i < n; ++i) {  // a slot that was folded since is no longer there
      if (sessions_[slots[i]].open) touch(slots[i]);
    }
    for (const int64_t slot : into) {
      if (sessions_[slot].open) touch(slot);
    }
  }

  int64_t restore(int64_t group, int64_t start, int64_t end, bool given) {
    std::vector<int64_t> from, into;
    const int64_t slot = join(group, start, end, from, into);
    if (!given) touch(slot);
    return slot;
  }

  // Sessions that end by `limit`, by their end; they are open no longer.
  void close(int64_t limit, std::vector<int64_t>& slots) {
    while (pop(closing_, limit)) {
      const int64_t slot = popped_.slot;
      unlink(slot);
      end_session(slot);
      slots.push_back(slot);
    }
  }

  // Sessions that end by `limit` and have changed since they were given here.
  void ended(int64_t limit, std::vector<int64_t>& slots) {
    while (pop(ending_, limit)) {
      if (sessions_[popped_.slot].given) continue;
      sessions_[popped_.slot].given = true;
      slots.push_back(popped_.slot);
    }
  }

  bool has_open(int64_t group) const {
    return group < static_cast<int64_t>(latest_.size()) && latest_[group] >= 0;
  }
  const std::vector<Session>& sessions() const { return sessions_; }
  int64_t n_open() const { return n_open_; }
  int64_t n_bytes() const {
    return static_cast<int64_t>(sessions_.capacity() * sizeof(Session) +
                                (latest_.capacity() + free_.capacity() + leaving_.capacity()) * 8 +
                                (closing_.capacity() + ending_.capacity()) * sizeof(Closing));
  }

 private:
  int64_t end_of(int64_t time) const { return time > last_ - gap_ ? last_ : time + gap_; }

  int64_t join(int64_t group, int64_t start, int64_t end, std::vector<int64_t>& from,
               std::vector<int64_t>& into) {
    if (group >= static_cast<int64_t>(latest_.size())) {
      latest_.resize(std::max<size_t>(group + 1, latest_.size() * 2), -1);
    }
    int64_t later = -1, at = latest_[group];
    while (at >= 0 && sessions_[at].start > end) {
      later = at;
      at = sessions_[at].earlier;
    }
    if (at < 0 || sessions_[at].end < start) return make(group, start, end, later, at);
    for (int64_t next; (next = sessions_[at].earlier) >= 0 && sessions_[next].end >= start;) {
      sessions_[next].end = std::max(sessions_[next].end, sessions_[at].end);
      from.push_back(at);
      into.push_back(next);
      link(group, later, next);
      end_session(at);
      at = next;
    }
    Session& session = sessions_[at];
    session.start = std::min(session.start, start);
    session.end = std::max(session.end, end);
    return at;
  }

  int64_t make(int64_t group, int64_t start, int64_t end, int64_t later, int64_t earlier) {
    int64_t slot = static_cast<int64_t>(sessions_.size());
    if (free_.empty()) {
      sessions_.push_back(Session{});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    sessions_[slot] = Session{group, start, end, earlier, ++n_born_, true, true};
    link(group, later, slot);
    push(closing_, slot);
    ++n_open_;
    return slot;
  }

  void link(int64_t group, int64_t later, int64_t slot) {
    (later < 0 ? latest_[group] : sessions_[later].earlier) = slot;
  }

  void unlink(int64_t slot) {
    const int64_t group = sessions_[slot].group;
    int64_t later = -1;
    for (int64_t at = latest_[group]; at != slot; at = sessions_[at].earlier) later = at;
    link(group, later, sessions_[slot].earlier);
  }

  void end_session(int64_t slot) {
    sessions_[slot].open = false;
    leaving_.push_back(slot);
    --n_open_;
  }

  // Slots are used again only after the caller had time to fold and read their sums.
  void reuse() {
    free_.insert(free_.end(), leaving_.rbegin(), leaving_.rend());
    leaving_.clear();
  }

  void touch(int64_t slot) {
    if (!updates_ || !sessions_[slot].given) return;
    sessions_[slot].given = false;
    push(ending_, slot);
  }

  void push(std::vector<Closing>& heap, int64_t slot) {
    heap.push_back({sessions_[slot].end, slot, sessions_[slot].born});
    std::push_heap(heap.begin(), heap.end(), ClosesLater());
  }

  // The first entry of `heap` that is true and at most `limit`, into `popped_`.
  bool pop(std::vector<Closing>& heap, int64_t limit) {
    while (!heap.empty() && heap.front().end <= limit) {
      popped_ = heap.front();
      std::pop_heap(heap.begin(), heap.end(), ClosesLater());
      heap.pop_back();
      const Session& session = sessions_[popped_.slot];
      if (!session.open || session.born != popped_.born) continue;
      if (session.end <= popped_.end) return true;
      push(heap, popped_.slot);
    }
    return false;
  }

  int64_t gap_, last_;
  bool updates_;
  std::vector<Session> sessions_;
  std::vector<int64_t> latest_, free_, leaving_;
  std::vector<Closing> closing_, ending_;
  Closing popped_{};
  uint64_t n_born_ = 0;
  int64_t n_open_ = 0;
};

}  // namespace fabric
