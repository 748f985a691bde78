// What a format string of the Arrow C data interface means to a kernel.
//
// One job: `Type`, a format string parsed once into the layout (how the bytes lie) and the value
// (what they mean).
#pragma once
#include <cstdint>
#include <vector>

struct ArrowSchema;

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

}  // namespace fabric
