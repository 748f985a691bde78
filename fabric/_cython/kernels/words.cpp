// The words of half-precision floats and of decimals: what words.hpp does not inline.
#include "words.hpp"

namespace fabric {
namespace {

constexpr uint64_t MERSENNE_61 = (UINT64_C(1) << 61) - 1;
constexpr uint64_t TENTH = UINT64_C(2075258708292324556);  // 1/10 mod 2^61 - 1

inline uint64_t modulo_61(uint64_t x) {
  x = (x & MERSENNE_61) + (x >> 61);
  return x >= MERSENNE_61 ? x - MERSENNE_61 : x;
}

inline uint64_t multiply_61(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  const uint64_t low = static_cast<uint64_t>(product) & MERSENNE_61;
  return modulo_61(low + static_cast<uint64_t>(product >> 61));
}

}  // namespace

double half_to_double(uint16_t half) {
  const uint64_t sign = static_cast<uint64_t>(half >> 15) << 63;
  const int exponent = half >> 10 & 31;
  const uint64_t fraction = half & 1023;
  uint64_t bits = sign;
  if (exponent == 31) {
    bits |= UINT64_C(0x7FF) << 52 | fraction << 42;
  } else if (exponent != 0) {
    bits |= static_cast<uint64_t>(exponent + 1008) << 52 | fraction << 42;
  } else {
    return (sign ? -1.0 : 1.0) * static_cast<double>(fraction) * 0x1p-24;
  }
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t scale_factor(int32_t scale) {
  uint64_t base = scale < 0 ? 10 : TENTH, factor = 1;
  for (int64_t left = scale < 0 ? -int64_t{scale} : scale; left > 0; left >>= 1) {
    if (left & 1) factor = multiply_61(factor, base);
    base = multiply_61(base, base);
  }
  return factor;
}

uint64_t decimal_word(const uint8_t* value, int32_t width, uint64_t factor) {
  if (width == 4) {
    const int64_t x = load<int32_t>(value);
    const uint64_t size = modulo_61(static_cast<uint64_t>(x < 0 ? -x : x));
    return multiply_61(x < 0 && size ? MERSENNE_61 - size : size, factor);
  }
  uint64_t sum = 0;
  const int32_t n_limbs = width / 8;
  for (int32_t i = n_limbs - 1; i >= 0; --i) {  // Horner, 2^64 = 8 (mod 2^61 - 1)
    sum = modulo_61(multiply_61(sum, 8) + modulo_61(load<uint64_t>(value + 8 * i)));
  }
  if (value[width - 1] & 0x80) {  // two's complement: take 2^bits away
    const uint64_t wrap = UINT64_C(1) << ((width * 8) % 61);
    sum = modulo_61(sum + MERSENNE_61 - wrap);
  }
  return multiply_61(sum, factor);
}

}  // namespace fabric
