// Arrow arrays as kernels see them: the C data interface, without libarrow.
//
// One job: the two structs as they are published, `Type` (a format string parsed once into the
// layout, how the bytes lie, and the value, what they mean), and how bits, bytes and numbers are
// read out of the buffers, wherever they lie. Moving whole columns is take.hpp's.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
}
#endif

namespace fabric {

enum class Layout : uint8_t {
  null, boolean, fixed, binary, large_binary, view, list, large_list, list_view, large_list_view,
  fixed_list, structure, sparse_union, dense_union, dictionary, run_end,
};

enum class Value : uint8_t {
  none, signed_int, unsigned_int, float16, float32, float64, decimal, temporal, days_ms,
  months_days_ns, bytes,
};

struct Type {
  Layout layout = Layout::null;
  Value value = Value::none;
  int32_t width = 0;        // bytes of one fixed value or index; elements of one fixed-size list
  int32_t scale = 0;        // decimals: digits after the point
  int64_t nanoseconds = 1;  // temporal: nanoseconds in one unit
  std::vector<Type> children;  // of a dictionary: its values
  int16_t child_of[128];       // unions: type code -> child, -1 when unused
};

// Parse a schema and everything below it; throws std::invalid_argument for an unknown format.
Type parse_type(const ArrowSchema& schema);

// A value wherever it lies: buffers that came with a message need not be aligned, and a compiler
// may rely on it that a `const int32_t*` is.
template <class T>
struct __attribute__((packed, may_alias)) Raw {
  T value;
  operator T() const { return value; }
};

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
