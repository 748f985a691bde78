// The Arrow C data interface, and what a format string means to a kernel.
//
// One job: the two C structs, and `Type`, a format string parsed once into the layout (how the
// bytes lie) and the value (what they mean). No libarrow: only the published C structs.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
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

namespace detail {

inline Type fixed(Value value, int32_t width) {
  Type type;
  type.layout = Layout::fixed;
  type.value = value;
  type.width = width;
  return type;
}

inline Type laid(Layout layout, Value value = Value::none, int32_t width = 0) {
  Type type;
  type.layout = layout;
  type.value = value;
  type.width = width;
  return type;
}

inline Type temporal(int32_t width, int64_t nanoseconds) {
  Type type = fixed(Value::temporal, width);
  type.nanoseconds = nanoseconds;
  return type;
}

[[noreturn]] inline void refuse(const char* format) {
  throw std::invalid_argument(std::string("unknown Arrow format '") + format + "'");
}

inline int64_t unit(char letter, const char* format) {
  switch (letter) {
    case 's': return 1000000000;
    case 'm': return 1000000;
    case 'u': return 1000;
    case 'n': return 1;
    default: refuse(format);
  }
}

inline Type decimal(const char* format) {  // d:precision,scale[,bits]
  char* end = nullptr;
  std::strtol(format + 2, &end, 10);
  if (*end != ',') refuse(format);
  const long scale = std::strtol(end + 1, &end, 10);
  const long bits = *end == ',' ? std::strtol(end + 1, &end, 10) : 128;
  if (*end != 0 || (bits != 32 && bits != 64 && bits != 128 && bits != 256)) refuse(format);
  Type type = fixed(Value::decimal, static_cast<int32_t>(bits / 8));
  type.scale = static_cast<int32_t>(scale);
  return type;
}

inline Type temporal_of(const char* format) {  // after the leading 't'
  const char unit_letter = format[2];
  switch (format[1]) {
    case 'd':  // dates: days, or milliseconds
      if (unit_letter == 'D') return temporal(4, INT64_C(86400000000000));
      if (unit_letter == 'm') return temporal(8, 1000000);
      break;
    case 't':
      return temporal(unit_letter == 's' || unit_letter == 'm' ? 4 : 8, unit(unit_letter, format));
    case 's': case 'D':
      return temporal(8, unit(unit_letter, format));
    case 'i':
      if (unit_letter == 'M') return fixed(Value::signed_int, 4);
      if (unit_letter == 'D') return fixed(Value::days_ms, 8);
      if (unit_letter == 'n') return fixed(Value::months_days_ns, 16);
      break;
  }
  refuse(format);
}

inline void read_union_codes(const char* format, Type& type) {  // +ud:1,5,… or +us:…
  for (int16_t& child : type.child_of) child = -1;
  const char* at = format + 4;
  for (int16_t child = 0; *at; ++child) {
    char* end = nullptr;
    const long code = std::strtol(at, &end, 10);
    if (end == at || code < 0 || code > 127) refuse(format);
    type.child_of[code] = child;
    at = *end == ',' ? end + 1 : end;
  }
}

inline Type nested_of(const char* format) {  // after the leading '+'
  switch (format[1]) {
    case 'l': case 'm': return laid(Layout::list);
    case 'L': return laid(Layout::large_list);
    case 's': return laid(Layout::structure);
    case 'r': return laid(Layout::run_end);
    case 'v': return laid(format[2] == 'L' ? Layout::large_list_view : Layout::list_view);
    case 'w': return laid(Layout::fixed_list, Value::none, std::atoi(format + 3));
    case 'u': {
      Type type = laid(format[2] == 'd' ? Layout::dense_union : Layout::sparse_union);
      read_union_codes(format, type);
      return type;
    }
    default: refuse(format);
  }
}

inline Type flat_of(const char* format) {
  switch (format[0]) {
    case 'n': return laid(Layout::null);
    case 'b': return laid(Layout::boolean);
    case 'c': return fixed(Value::signed_int, 1);
    case 'C': return fixed(Value::unsigned_int, 1);
    case 's': return fixed(Value::signed_int, 2);
    case 'S': return fixed(Value::unsigned_int, 2);
    case 'i': return fixed(Value::signed_int, 4);
    case 'I': return fixed(Value::unsigned_int, 4);
    case 'l': return fixed(Value::signed_int, 8);
    case 'L': return fixed(Value::unsigned_int, 8);
    case 'e': return fixed(Value::float16, 2);
    case 'f': return fixed(Value::float32, 4);
    case 'g': return fixed(Value::float64, 8);
    case 'z': case 'u': return laid(Layout::binary, Value::bytes);
    case 'Z': case 'U': return laid(Layout::large_binary, Value::bytes);
    case 'v': return laid(Layout::view, Value::bytes);
    case 'w': return fixed(Value::bytes, std::atoi(format + 2));
    case 'd': return decimal(format);
    case 't': return temporal_of(format);
    default: refuse(format);
  }
}

}  // namespace detail

// Parse a schema and everything below it; throws std::invalid_argument for an unknown format.
inline Type parse_type(const ArrowSchema& schema) {
  const char* format = schema.format;
  Type type = format[0] == '+' ? detail::nested_of(format) : detail::flat_of(format);
  if (schema.dictionary != nullptr) {
    type.layout = Layout::dictionary;  // value and width keep describing the indices
    type.children.push_back(parse_type(*schema.dictionary));
    return type;
  }
  type.children.reserve(static_cast<size_t>(schema.n_children));
  for (int64_t i = 0; i < schema.n_children; ++i) {
    type.children.push_back(parse_type(*schema.children[i]));
  }
  return type;
}

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

// A value wherever it lies: buffers that came with a message need not be aligned.
template <class T>
struct __attribute__((packed, may_alias)) Raw {
  T value;
  operator T() const { return value; }
};

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

}  // namespace fabric
