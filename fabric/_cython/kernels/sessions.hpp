// Sessions: windows of one group that grow with each row and become one when they touch.
//
// One job: `SessionTable` keeps the open sessions of each group; they never overlap or touch. A
// session has a slot, by which the caller keeps its sums. How it is done lives in sessions.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace fabric {

struct Session {
  int64_t group, start, end;
  int64_t earlier;  // the next one of the list, or -1
  uint64_t born;    // which session of this slot it is: tells heap entries of former ones
  bool open, given;
};

class SessionTable {
 public:
  SessionTable(int64_t gap, int64_t last, bool updates);
  ~SessionTable();

  // Sessions of rows: `slots` one a row; of sessions that became one, `from` went into `into`, to
  // be folded in this order after all rows were added to their slots.
  void assign(const int64_t* groups, const int64_t* times, int64_t n, int64_t* slots,
              std::vector<int64_t>& from, std::vector<int64_t>& into);

  // Open a session that an export brought; returns its slot.
  int64_t restore(int64_t group, int64_t start, int64_t end, bool given);

  // Sessions that end by `limit`, by their end; they are open no longer.
  void close(int64_t limit, std::vector<int64_t>& slots);

  // Sessions that end by `limit` and have changed since they were given here.
  void ended(int64_t limit, std::vector<int64_t>& slots);

  // Whether groups have any: 1 or 0.
  void have_open(const int64_t* groups, int64_t n, uint8_t* out) const;

  const std::vector<Session>& sessions() const;  // by slot
  int64_t n_open() const;
  int64_t n_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace fabric
