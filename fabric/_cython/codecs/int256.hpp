// Decimals of 128 and 256 bits, between the bytes of a format and those of a column.
//
// One job: big-endian two's complement of any length to a column's fixed little-endian width, with
// the check that the digits fit its precision, and back.
#pragma once
#include <cstdint>
#include <cstring>

namespace fabric::codecs {

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
  for (int32_t digit = 0; digit < precision; ++digit) {
    unsigned __int128 carry = 9;
    for (uint64_t& word : made.words) {
      carry += static_cast<unsigned __int128>(word) * 10;
      word = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }
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
