// What operators keep by group id and by key: tables of groups and of rows, and aggregates.
//
// One job: the interfaces that group_table.pyx, join_table.pyx and accumulators.pyx call. The loops
// live in the .cpp files of their names, those of extremes in extremes.cpp; all that runs per row
// is inlined there.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

struct ArrowArray;

namespace fabric {

struct Type;
using Types = std::vector<Type>;
using Arrays = std::vector<ArrowArray*>;

// Dense group ids for keys, batch after batch: keys in, ids out, and the way back.
class GroupTable {
 public:
  virtual ~GroupTable() = default;

  // The group of each row; rows of unknown keys get new ones. Arrays are of the table's types, in
  // any layout, and of one length.
  virtual void upsert(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) = 0;

  // The group of each row; -1 where the key is unknown.
  virtual void find(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) = 0;

  // The place of the first id that is no group's; n when there is none.
  virtual int64_t first_stranger(const int32_t* ids, int64_t n) const = 0;

  // Forget groups; throws std::out_of_range at the first that is none, before anything changes.
  virtual void remove(const int32_t* ids, int64_t n) = 0;

  // Let freed ids be given to new groups, those freed first before the others.
  virtual void compact() = 0;

  // Ids of all groups, rising; `ids` has room for `n_groups`.
  virtual void list(int32_t* ids) const = 0;

  virtual void keys(const int32_t* ids, int64_t n, ArrowArray& out) const = 0;

  virtual int64_t n_groups() const = 0;
  virtual int64_t n_ids() const = 0;
  virtual int64_t n_bytes() const = 0;
};

std::unique_ptr<GroupTable> make_group_table(const Types& types);

// Rows found by their keys, the state of a join's side: rows in, those of equal keys out.
class JoinTable {
 public:
  virtual ~JoinTable() = default;

  // Keep rows. `times` may be nullptr: such rows never go by time.
  virtual void insert(const Types& key_types, const Arrays& keys, const Arrays& payload,
                      const int64_t* times, int cpu) = 0;
  virtual const int32_t* placed() const = 0;  // where each row of the last `insert` is

  // Rows of equal keys, from probe row `begin` on: pairs in `probed` and `found` (the places).
  // A null key is equal to none. With `outer` a probe row without any gives the place -1. Stops
  // before a probe row that would make more than `most` pairs, unless it is the first; returns the
  // probe row to go on with.
  virtual int64_t probe(const Types& types, const Arrays& arrays, int64_t begin, int64_t most,
                        bool outer, int cpu) = 0;
  virtual int64_t n_pairs() const = 0;
  virtual bool each_has_one() const = 0;  // the pairs' probe rows are all, one by one
  virtual const uint32_t* probed() const = 0;
  virtual const int32_t* found() const = 0;

  // Whether each probe row has any: 1 or 0.
  virtual void contains(const Types& types, const Arrays& arrays, int cpu, uint8_t* out) = 0;

  // Forget the rows whose time is less than `bound`; returns how many.
  virtual int64_t remove_before(int64_t bound) = 0;

  // Places of the rows that `remove_before` would forget, rising.
  virtual std::vector<int32_t> before(int64_t bound) const = 0;

  // Places of all rows, rising, and the times of those at some places.
  virtual void list(int32_t* places) const = 0;
  virtual void times(const int32_t* places, int64_t n, int64_t* out) const = 0;

  // Some columns of the rows at `places` as a struct; null where the place is -1.
  virtual void gather(const int32_t* places, int64_t n, const std::vector<int32_t>& which,
                      ArrowArray& out) const = 0;

  virtual int64_t n_places() const = 0;
  virtual int64_t n_rows() const = 0;
  virtual int64_t n_bytes() const = 0;
};

// `payload` are the types of all columns that are kept, those of the keys among them.
std::unique_ptr<JoinTable> make_join_table(const Types& keys, const Types& payload);

// One state a group, empty when nothing has come in, updated row by row; there is one id a row, and
// rows with id -1 are left out.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  virtual void reserve(const int32_t* ids, int64_t n, int cpu) = 0;  // before all that follows
  virtual void clear(const int32_t* ids, int64_t n) = 0;
  virtual void update(const Type& type, const ArrowArray& array, const int32_t* ids) = 0;
  virtual void merge(const Type& type, const ArrowArray& states, const int32_t* ids) = 0;
  // States of groups one after the other, and whether anything came in for them.
  virtual void read(const int32_t* ids, int64_t n, uint8_t* out, uint8_t* seen) const = 0;
  virtual int64_t n_bytes() const = 0;
};

// Of rows, or of values that are not null.
class Counts : public Accumulator {
 public:
  virtual void rows(const int32_t* ids, int64_t n) = 0;
};

// The least or the greatest value, of any type that has an order; `read` is for ranked ones.
class Extremes : public Accumulator {
 public:
  virtual bool is_ranked() const = 0;  // whether values are of one word

  // Values that are not ranked, as a struct of one field.
  virtual void put_out(const int32_t* ids, int64_t n, ArrowArray& out) const = 0;
};

std::unique_ptr<Counts> make_counts();
std::unique_ptr<Accumulator> make_integer_sums();
std::unique_ptr<Accumulator> make_float_sums();
std::unique_ptr<Accumulator> make_decimal_sums();
std::unique_ptr<Accumulator> make_moment_sums();
std::unique_ptr<Extremes> make_extremes(const Type& type, bool greatest);

}  // namespace fabric
