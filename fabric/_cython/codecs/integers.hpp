// Integers of a format, as values of a column of any numeric type.
//
// One job: the conversion of 64 bits, exact or refused, and that of decimals of 128 and 256 bits:
// big-endian two's complement of any length to a column's fixed little-endian width, with the check
// that the digits fit its precision, and back.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#include "codecs/columns.hpp"

namespace fabric::codecs {

template <class T, class Wide>
inline bool append_fitting(Column& column, Wide value) {
  if (!std::in_range<T>(value)) return false;
  column.number(static_cast<T>(value));
  return true;
}

// Append `value`, converted exactly; false when the column has no room for it.
inline bool append_integer(Column& column, Kind kind, int64_t value) {
  switch (kind) {
    case Kind::int8: return append_fitting<int8_t>(column, value);
    case Kind::int16: return append_fitting<int16_t>(column, value);
    case Kind::int32: case Kind::date32: return append_fitting<int32_t>(column, value);
    case Kind::uint8: return append_fitting<uint8_t>(column, value);
    case Kind::uint16: return append_fitting<uint16_t>(column, value);
    case Kind::uint32: return append_fitting<uint32_t>(column, value);
    case Kind::uint64: return append_fitting<uint64_t>(column, value);
    case Kind::time:  // of a day
      if (value < 0 || value >= 86'400 * column.type().per_second) return false;
      return column.type().width == 4 ? append_fitting<int32_t>(column, value)
                                      : append_fitting<int64_t>(column, value);
    case Kind::date64:  // whole days
      return value % 86'400'000 == 0 && append_fitting<int64_t>(column, value);
    case Kind::float32: column.number(static_cast<float>(value)); return true;
    case Kind::float64: column.number(static_cast<double>(value)); return true;
    default:
      return column.type().width == 4 ? append_fitting<int32_t>(column, value)
                                      : append_fitting<int64_t>(column, value);
  }
}

inline int64_t unzigzag(uint64_t raw) {
  return static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
}

struct Int256 {
  uint64_t words[4];  // two's complement, least first

  bool is_negative() const { return words[3] >> 63 != 0; }

  void negate() {
    unsigned char carry = 1;
    for (uint64_t& word : words) {
      word = ~word + carry;
      carry = carry != 0 && word == 0;
    }
  }

  // This * factor + more, both without a sign; false when it does not fit.
  bool times_plus(uint64_t factor, uint64_t more) {
    unsigned __int128 carry = more;
    for (uint64_t& word : words) {
      carry += static_cast<unsigned __int128>(word) * factor;
      word = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    return carry == 0;
  }

  bool is_over(const Int256& other) const {  // both without a sign
    for (int k = 3; k >= 0; --k) {
      if (words[k] != other.words[k]) return words[k] > other.words[k];
    }
    return false;
  }
};

// 10^precision - 1; precision is at most 76.
inline Int256 largest(int32_t precision) {
  Int256 made{};
  for (int32_t digit = 0; digit < precision; ++digit) made.times_plus(10, 9);
  return made;
}

// A number of `size` bytes, most significant first; false when it has more digits than `most`.
inline bool read_int256(const uint8_t* at, int64_t size, const Int256& most, Int256& out) {
  const uint8_t sign = size > 0 && (at[0] & 0x80) != 0 ? 0xFF : 0;
  while (size > 32) {
    if (*at != sign) return false;
    ++at;
    --size;
  }
  uint8_t bytes[32];
  std::memset(bytes, sign, sizeof bytes);
  for (int64_t k = 0; k < size; ++k) bytes[k] = at[size - 1 - k];
  std::memcpy(out.words, bytes, sizeof bytes);  // little-endian, as Arrow's buffers are
  if (out.is_negative() != (sign != 0)) return false;
  Int256 positive = out;
  if (sign != 0) positive.negate();
  return !positive.is_over(most);
}

// A column's value of `width` bytes (16 or 32), with its sign spread.
inline Int256 load_int256(const uint8_t* at, int32_t width) {
  Int256 made;
  std::memset(made.words, (at[width - 1] & 0x80) != 0 ? 0xFF : 0, sizeof made.words);
  std::memcpy(made.words, at, static_cast<size_t>(width));
  return made;
}

// The fewest bytes that hold it, most significant first; returns how many (1 … 32).
inline int64_t write_int256(const Int256& value, uint8_t* out) {
  uint8_t bytes[32];
  std::memcpy(bytes, value.words, sizeof bytes);
  const uint8_t sign = value.is_negative() ? 0xFF : 0;
  int64_t size = 32;
  while (size > 1 && bytes[size - 1] == sign && ((bytes[size - 2] ^ sign) & 0x80) == 0) --size;
  for (int64_t k = 0; k < size; ++k) out[k] = bytes[size - 1 - k];
  return size;
}

}  // namespace fabric::codecs
