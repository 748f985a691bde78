// Reordering whole columns, whatever their layout and nesting, into buffers of a Holder.
//
// One job: rows of an array to new places. *Gather* reads `in[rows[j]]` and writes in order;
// *scatter* reads in order and writes `out[target[i]]`. Dictionaries are kept as they are (moved
// from the input). Views come out compact, in row order, so that the bytes of a slice lie together;
// lists and strings of null rows come out empty. Offsets are trusted.
#pragma once
#include <functional>
#include <optional>

#include "memory.hpp"

struct ArrowArray;

namespace fabric {

struct Type;

// Which input row goes where: by `rows` (gather), or by `target` for a permutation (scatter).
class Order {
 public:
  static Order gather(const uint32_t* rows, int64_t n) { return Order(rows, nullptr, n, nullptr); }
  static Order scatter(const uint32_t* target, int64_t n, Allocator& allocator) {
    return Order(nullptr, target, n, &allocator);
  }
  int64_t n() const { return n_; }
  const uint32_t* target() const { return target_; }
  const uint32_t* rows() const {  // the inverse is made when first asked for
    if (rows_ == nullptr && target_ != nullptr) make_rows();
    return rows_;
  }

 private:
  Order(const uint32_t* rows, const uint32_t* target, int64_t n, Allocator* allocator)
      : rows_(rows), target_(target), n_(n), allocator_(allocator) {}
  void make_rows() const;

  mutable const uint32_t* rows_;
  const uint32_t* target_;
  int64_t n_;
  Allocator* allocator_;
  mutable std::optional<Scratch<uint32_t>> inverse_;
};

// Reorder an array into `out`; on failure `out` is left released and the error goes on.
void take_array(const Type& type, ArrowArray& in, const Order& order, int cpu,
                Allocator& allocator, ArrowArray& out);

// The same for a batch, by a target that `place(row)` fills from `row` on; it returns for how many.
// One column of plain values moves block by block behind it: stores of one block drain while the
// next one is placed. More of them at once would write to too many places and be slower.
void take_placed(const Type& type, ArrowArray& in, const Order& order,
                 const std::function<int64_t(int64_t)>& place, int cpu, Allocator& allocator,
                 ArrowArray& out);

}  // namespace fabric
