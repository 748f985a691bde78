// The lists of open sessions by group, and what ends when.
//
// One job: the bodies of sessions.hpp. The sessions of a group are a list from the latest to the
// earliest; a row joins at most two of them. Ends only grow: they lie in a queue as they were when
// put there, and one that turns out to be out of date goes back with its true end.
#include "sessions.hpp"

#include <algorithm>
#include <map>

namespace fabric {

struct Closing {
  int64_t end, slot;
  uint64_t born;
};

// What ends when, roughly in order: buckets of ends that lie together, of which the first is a heap
// while it is taken from. A push is O(1) but for the first bucket.
class Ends {
 public:
  explicit Ends(int64_t width) : width_(std::max<int64_t>(width, 1)) {}

  void push(Closing closing) {
    const int64_t bucket = bucket_of(closing.end);
    if (bucket > first_) {
      later_[bucket].push_back(closing);
      return;
    }
    heap_.push_back(closing);
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }

  // The least one that ends by `limit`.
  bool pop(int64_t limit, Closing& found) {
    while (heap_.empty()) {
      if (later_.empty() || later_.begin()->first > bucket_of(limit)) return false;
      first_ = later_.begin()->first;
      heap_.swap(later_.begin()->second);
      later_.erase(later_.begin());
      std::make_heap(heap_.begin(), heap_.end(), Later());
    }
    if (heap_.front().end > limit) return false;
    found = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    heap_.pop_back();
    return true;
  }

  int64_t n_bytes() const {
    size_t n = heap_.capacity();
    for (const auto& [_, bucket] : later_) n += bucket.capacity();
    return static_cast<int64_t>(n * sizeof(Closing));
  }

 private:
  struct Later {
    bool operator()(const Closing& a, const Closing& b) const {
      return a.end != b.end ? a.end > b.end : a.slot > b.slot;
    }
  };

  int64_t bucket_of(int64_t end) const {  // rounded down
    return end / width_ - (end % width_ < 0);
  }

  int64_t width_, first_ = INT64_MIN;
  std::vector<Closing> heap_;
  std::map<int64_t, std::vector<Closing>> later_;
};

class SessionTable::Core {
 public:
  Core(int64_t gap, int64_t last, bool updates)
      : gap_(gap), last_(last), updates_(updates), closing_(gap / 64), ending_(gap / 64) {}

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

  void close(int64_t limit, std::vector<int64_t>& slots) {
    while (pop(closing_, limit)) {
      const int64_t slot = popped_.slot;
      unlink(slot);
      end_session(slot);
      slots.push_back(slot);
    }
  }

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
                                (latest_.capacity() + free_.capacity() + leaving_.capacity()) * 8) +
           closing_.n_bytes() + ending_.n_bytes();
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

  void push(Ends& ends, int64_t slot) {
    ends.push({sessions_[slot].end, slot, sessions_[slot].born});
  }

  // The first entry of `ends` that is true and at most `limit`, into `popped_`.
  bool pop(Ends& ends, int64_t limit) {
    while (ends.pop(limit, popped_)) {
      const Session& session = sessions_[popped_.slot];
      if (!session.open || session.born != popped_.born) continue;
      if (session.end <= popped_.end) return true;
      push(ends, popped_.slot);
    }
    return false;
  }

  int64_t gap_, last_;
  bool updates_;
  Ends closing_, ending_;
  std::vector<Session> sessions_;
  std::vector<int64_t> latest_, free_, leaving_;
  Closing popped_{};
  uint64_t n_born_ = 0;
  int64_t n_open_ = 0;
};

// --- what others see ----------------------------------------------------------------------------

SessionTable::SessionTable(int64_t gap, int64_t last, bool updates)
    : core_(std::make_unique<Core>(gap, last, updates)) {}
SessionTable::~SessionTable() = default;

void SessionTable::assign(const int64_t* groups, const int64_t* times, int64_t n, int64_t* slots,
                          std::vector<int64_t>& from, std::vector<int64_t>& into) {
  core_->assign(groups, times, n, slots, from, into);
}
int64_t SessionTable::restore(int64_t group, int64_t start, int64_t end, bool given) {
  return core_->restore(group, start, end, given);
}
void SessionTable::close(int64_t limit, std::vector<int64_t>& slots) { core_->close(limit, slots); }
void SessionTable::ended(int64_t limit, std::vector<int64_t>& slots) { core_->ended(limit, slots); }
void SessionTable::have_open(const int64_t* groups, int64_t n, uint8_t* out) const {
  for (int64_t i = 0; i < n; ++i) out[i] = core_->has_open(groups[i]);
}
const std::vector<Session>& SessionTable::sessions() const { return core_->sessions(); }
int64_t SessionTable::n_open() const { return core_->n_open(); }
int64_t SessionTable::n_bytes() const { return core_->n_bytes(); }

}  // namespace fabric
