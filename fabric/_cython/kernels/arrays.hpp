// How kernels read the values of an array.
//
// One job: bits, bytes and numbers out of the buffers, wherever they lie. Moving whole columns is
// take.hpp's.
#pragma once
#include <cstdint>
#include <cstring>

#include "arrow_c.hpp"
#include "raw.hpp"
#include "type.hpp"

namespace fabric {

// Validity bits of an array, or nullptr when no row can be null.
inline const uint8_t* validity_of(const Type& type, const ArrowArray& array) {
  switch (type.layout) {
    case Layout::null: case Layout::sparse_union: case Layout::dense_union: case Layout::run_end:
      return nullptr;
    default:
      return array.null_count == 0 || array.n_buffers == 0
                 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  }
}

template <class T>
inline const Raw<T>* buffer_of(const ArrowArray& array, int64_t index) {
  return static_cast<const Raw<T>*>(array.buffers[index]);
}

inline const uint8_t* bytes_of(const ArrowArray& array, int64_t index) {
  return static_cast<const uint8_t*>(array.buffers[index]);
}

inline bool bit_at(const uint8_t* bits, int64_t index) {
  return bits[index >> 3] >> (index & 7) & 1;
}

template <class T>
inline T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Bits [index, index + count) of a bitmap as the low bits of a word; reads no byte outside them.
inline uint64_t load_bits(const uint8_t* bits, int64_t index, int64_t count) {
  const uint8_t* at = bits + (index >> 3);
  const int shift = static_cast<int>(index & 7);
  const int64_t n_bytes = (shift + count + 7) >> 3;  // at most 9
  uint64_t word = 0;
  std::memcpy(&word, at, static_cast<size_t>(n_bytes < 8 ? n_bytes : 8));
  word >>= shift;
  if (n_bytes > 8) word |= static_cast<uint64_t>(at[8]) << (64 - shift);
  return count < 64 ? word & ((UINT64_C(1) << count) - 1) : word;
}

// How many of the bits [first, first + n) are set.
int64_t count_bits(const uint8_t* bits, int64_t first, int64_t n);

// Copy `size` bytes in steps of 32 that may run past the end of the target (which the next copy
// writes over, or slack) but never past `end` of the source: most strings take no second step,
// so their length is not a branch to guess.
inline void copy_bytes(const uint8_t* from, const uint8_t* end, int64_t size, uint8_t* to) {
  if (end - from >= size + 32) {
    std::memcpy(to, from, 32);
    for (int64_t k = 32; k < size; k += 32) std::memcpy(to + k, from + k, 32);
  } else if (size > 0) {
    std::memcpy(to, from, static_cast<size_t>(size));
  }
}

}  // namespace fabric
