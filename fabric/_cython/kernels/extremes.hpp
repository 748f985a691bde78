// The least or the greatest value of each group, of any type that has an order.
//
// One job: `Extremes`, what extremes.pyx calls. How values are compared and kept lives in
// extremes_core.hpp, compiled in tables.cpp.
#pragma once
#include <cstdint>
#include <memory>

struct ArrowArray;

namespace fabric {

struct Type;

class Extremes {
 public:
  Extremes(const Type& type, bool greatest);
  ~Extremes();

  bool is_ranked() const;  // whether values are of one word

  // One id a row; `type` may be another layout of the values.
  void update(const Type& type, const ArrowArray& array, const int32_t* ids, int cpu);

  void clear(const int32_t* ids, int64_t n, int cpu);

  // Ranked values as words, and whether there is one.
  void read(const int32_t* ids, int64_t n, int cpu, uint64_t* words, uint8_t* seen);

  // Other values, as a struct of one field.
  void put_out(const int32_t* ids, int64_t n, int cpu, ArrowArray& out);

  int64_t n_bytes() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace fabric
