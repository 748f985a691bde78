// The word that stands for one value, and how it goes into the hash of a row (hash.pyx has the
// specification).
//
// One job: words of single values and `step`, for those that have values one by one. Columns are
// hash.hpp's.
#pragma once
#include <cstdint>
#include <cstring>

#include "arrays.hpp"

namespace fabric {

constexpr uint64_t GOLDEN = UINT64_C(0x9E3779B97F4A7C15);
constexpr uint64_t NULL_WORD = UINT64_C(0xB492B66FBE98F273);
constexpr uint64_t BYTES_KEY_0 = UINT64_C(0xA0761D6478BD642F);
constexpr uint64_t BYTES_KEY_1 = UINT64_C(0xE7037ED1A0B428DB);
constexpr uint64_t NAN_BITS = UINT64_C(0x7FF8000000000000);

// MurmurHash3's 64-bit finaliser: a bijection.
__attribute__((always_inline)) inline uint64_t finish(uint64_t x) {
  x ^= x >> 33;
  x *= UINT64_C(0xFF51AFD7ED558CCD);
  x ^= x >> 33;
  x *= UINT64_C(0xC4CEB9FE1A85EC53);
  return x ^ x >> 33;
}

__attribute__((always_inline)) inline uint64_t step(uint64_t hash, uint64_t word) {
  return finish(hash * GOLDEN + word);
}

inline uint64_t multiply_fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// After wyhash (Wang Yi, public domain): 16 bytes a multiplication, reads nothing outside.
inline uint64_t bytes_word(const uint8_t* data, uint64_t n) {
  uint64_t seed = BYTES_KEY_0, a = 0, b = 0;
  if (n > 16) {
    const uint8_t* last = data + n - 16;
    for (; data < last; data += 16) {
      seed = multiply_fold(load<uint64_t>(data) ^ BYTES_KEY_1, load<uint64_t>(data + 8) ^ seed);
    }
    a = load<uint64_t>(last);
    b = load<uint64_t>(last + 8);
  } else if (n >= 8) {
    a = load<uint64_t>(data);
    b = load<uint64_t>(data + n - 8);
  } else if (n >= 4) {
    a = load<uint32_t>(data);
    b = load<uint32_t>(data + n - 4);
  } else if (n > 0) {
    a = uint64_t{data[0]} << 16 | uint64_t{data[n >> 1]} << 8 | data[n - 1];
  }
  return multiply_fold(BYTES_KEY_1 ^ n, multiply_fold(a ^ BYTES_KEY_1, b ^ seed));
}

__attribute__((always_inline)) inline uint64_t double_word(double x) {
  x += 0.0;  // -0.0 becomes 0.0
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return x != x ? NAN_BITS : bits;
}

double half_to_double(uint16_t half);

// 10^-scale mod 2^61 - 1: what makes 1.5 and 1.500 the same word.
uint64_t scale_factor(int32_t scale);

// value * 10^-scale mod 2^61 - 1, as Python hashes its own numbers.
uint64_t decimal_word(const uint8_t* value, int32_t width, uint64_t factor);

}  // namespace fabric
