// Integers of a format, appended to a column of any numeric type.
//
// One job: the conversion, exact or refused.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "codecs/columns.hpp"

namespace fabric::codecs {

template <class T>
inline bool append_narrow(Column& column, int64_t value) {
  if (value < 0 && std::is_unsigned_v<T>) return false;
  if constexpr (sizeof(T) < sizeof(int64_t)) {
    if (value < std::numeric_limits<T>::min() || value > int64_t{std::numeric_limits<T>::max()}) {
      return false;
    }
  }
  column.number(static_cast<T>(value));
  return true;
}

// Append `value`, converted exactly; false when the column has no room for it.
inline bool append_integer(Column& column, Kind kind, int64_t value) {
  switch (kind) {
    case Kind::int8: return append_narrow<int8_t>(column, value);
    case Kind::int16: return append_narrow<int16_t>(column, value);
    case Kind::int32: case Kind::date32: return append_narrow<int32_t>(column, value);
    case Kind::uint8: return append_narrow<uint8_t>(column, value);
    case Kind::uint16: return append_narrow<uint16_t>(column, value);
    case Kind::uint32: return append_narrow<uint32_t>(column, value);
    case Kind::uint64: return append_narrow<uint64_t>(column, value);
    case Kind::time:  // of a day
      if (value < 0 || value >= 86'400 * column.type().per_second) return false;
      return column.type().width == 4 ? append_narrow<int32_t>(column, value)
                                      : append_narrow<int64_t>(column, value);
    case Kind::date64:  // whole days
      return value % 86'400'000 == 0 && append_narrow<int64_t>(column, value);
    case Kind::float32: column.number(static_cast<float>(value)); return true;
    case Kind::float64: column.number(static_cast<double>(value)); return true;
    default:
      return column.type().width == 4 ? append_narrow<int32_t>(column, value)
                                      : append_narrow<int64_t>(column, value);
  }
}

}  // namespace fabric::codecs
