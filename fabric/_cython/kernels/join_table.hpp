// Rows found by their keys: the state of a join's side.
//
// One job: `JoinTable`, what join_table.pyx calls: rows in, those of equal keys out. How it is done
// lives in join_core.hpp, compiled in tables.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

struct ArrowArray;

namespace fabric {

struct Type;

class JoinTable {
 public:
  // `payload` are the types of all columns that are kept, those of the keys among them.
  JoinTable(const std::vector<Type>& keys, const std::vector<Type>& payload);
  ~JoinTable();

  // Keep rows. `times` may be nullptr: such rows never go by time.
  void insert(const std::vector<Type>& key_types, const std::vector<ArrowArray*>& keys,
              const std::vector<ArrowArray*>& payload, const int64_t* times, int cpu);

  // Rows of equal keys, from probe row `begin` on: pairs in `probed` and `found` (the places).
  // A null key is equal to none. With `outer` a probe row without any gives the place -1. Stops
  // before a probe row that would make more than `most` pairs, unless it is the first; returns the
  // probe row to go on with.
  int64_t probe(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays,
                int64_t begin, int64_t most, bool outer, int cpu);
  int64_t n_pairs() const;
  bool each_has_one() const;  // the pairs' probe rows are all, one by one
  const uint32_t* probed() const;
  const int32_t* found() const;

  // Whether each probe row has any: 1 or 0.
  void contains(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
                uint8_t* out);

  // Forget the rows whose time is less than `bound`; returns how many.
  int64_t remove_before(int64_t bound);

  // Places of all rows, rising, and the times of those at some places.
  void list(int32_t* places) const;
  void times(const int32_t* places, int64_t n, int64_t* out) const;

  // Some columns of the rows at `places` as a struct; null where the place is -1.
  void gather(const int32_t* places, int64_t n, const std::vector<int32_t>& which,
              ArrowArray& out) const;

  int64_t n_places() const;
  int64_t n_rows() const;
  int64_t n_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace fabric
