// Dense group ids for keys, batch after batch.
//
// One job: `GroupTable`, what group_table.pyx calls: keys in, ids out, and the way back. How it is
// done lives in group_core.hpp, compiled in tables.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

struct ArrowArray;

namespace fabric {

struct Type;

class GroupTable {
 public:
  explicit GroupTable(const std::vector<Type>& types);
  ~GroupTable();

  // The group of each row; rows of unknown keys get new ones. Arrays are of the table's types, in
  // any layout, and of one length.
  void upsert(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
              int32_t* ids);

  // The group of each row; -1 where the key is unknown.
  void find(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
            int32_t* ids);

  // The place of the first id that is no group's; n when there is none.
  int64_t first_stranger(const int32_t* ids, int64_t n) const;

  // Forget groups; throws std::out_of_range at the first that is none, before anything changes.
  void remove(const int32_t* ids, int64_t n);

  // Let freed ids be given to new groups, those freed first before the others.
  void compact();

  // Ids of all groups, rising; `ids` has room for `n_groups`.
  void list(int32_t* ids) const;

  void keys(const int32_t* ids, int64_t n, ArrowArray& out) const;

  int64_t n_groups() const;
  int64_t n_ids() const;
  int64_t n_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace fabric
