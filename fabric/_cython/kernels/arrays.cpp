// Arrow arrays as kernels see them: what a format string means, and how many bits are set.
#include "arrays.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace fabric {
namespace {
namespace formats {

Type fixed(Value value, int32_t width) {
  Type type;
  type.layout = Layout::fixed;
  type.value = value;
  type.width = width;
  return type;
}

Type laid(Layout layout, Value value = Value::none, int32_t width = 0) {
  Type type;
  type.layout = layout;
  type.value = value;
  type.width = width;
  return type;
}

Type temporal(int32_t width, int64_t nanoseconds) {
  Type type = fixed(Value::temporal, width);
  type.nanoseconds = nanoseconds;
  return type;
}

[[noreturn]] void refuse(const char* format) {
  throw std::invalid_argument(std::string("unknown Arrow format '") + format + "'");
}

int64_t unit(char letter, const char* format) {
  switch (letter) {
    case 's': return 1000000000;
    case 'm': return 1000000;
    case 'u': return 1000;
    case 'n': return 1;
    default: refuse(format);
  }
}

Type decimal(const char* format) {  // d:precision,scale[,bits]
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

Type temporal_of(const char* format) {  // after the leading 't'
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

void read_union_codes(const char* format, Type& type) {  // +ud:1,5,… or +us:…
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

Type nested_of(const char* format) {  // after the leading '+'
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

Type flat_of(const char* format) {
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

}  // namespace formats
}  // namespace

Type parse_type(const ArrowSchema& schema) {
  const char* format = schema.format;
  Type type = format[0] == '+' ? formats::nested_of(format) : formats::flat_of(format);
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

int64_t count_bits(const uint8_t* bits, int64_t first, int64_t n) {
  int64_t n_set = 0;
  for (int64_t i = 0; i < n; i += 64) {
    n_set += __builtin_popcountll(load_bits(bits, first + i, n - i < 64 ? n - i : 64));
  }
  return n_set;
}

}  // namespace fabric
