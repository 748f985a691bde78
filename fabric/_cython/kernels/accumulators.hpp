// Counts, sums and moments by group id.
//
// One job: `Accumulator`, what accumulators.pyx calls: one small state a group, empty when nothing
// has come in, updated row by row. Rows with id -1 are left out. The states live in by_group.hpp,
// compiled in tables.cpp.
#pragma once
#include <cstdint>
#include <memory>

struct ArrowArray;

namespace fabric {

struct Type;

// What all aggregates do; there is one id a row.
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

std::unique_ptr<Counts> make_counts();
std::unique_ptr<Accumulator> make_integer_sums();
std::unique_ptr<Accumulator> make_float_sums();
std::unique_ptr<Accumulator> make_decimal_sums();
std::unique_ptr<Accumulator> make_moment_sums();

}  // namespace fabric
