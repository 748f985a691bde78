// The hash of a row: one specification for every Arrow type (words of it in hash.pyx).
//
// One job: what word stands for one value, and how `step` takes it into the running hash. Walking
// columns and their nesting lives in hash_column.hpp, placement in partition.hpp.
#pragma once
#include "arrow_c.hpp"
#include "cpu.hpp"

namespace fabric {

constexpr int64_t HASH_BLOCK = 1024;  // rows hashed together: their words stay in the L1 cache
constexpr uint64_t GOLDEN = UINT64_C(0x9E3779B97F4A7C15);
constexpr uint64_t NULL_WORD = UINT64_C(0xB492B66FBE98F273);
constexpr uint64_t LIST_START = UINT64_C(0x8EBC6AF09C88C6E3);
constexpr uint64_t STRUCT_START = UINT64_C(0x589965CC75374CC3);
constexpr uint64_t BYTES_KEY_0 = UINT64_C(0xA0761D6478BD642F);
constexpr uint64_t BYTES_KEY_1 = UINT64_C(0xE7037ED1A0B428DB);
constexpr uint64_t NAN_BITS = UINT64_C(0x7FF8000000000000);
constexpr uint64_t MERSENNE_61 = (UINT64_C(1) << 61) - 1;
constexpr uint64_t TENTH = UINT64_C(2075258708292324556);  // 1/10 mod 2^61 - 1

FABRIC_INLINE uint64_t finish(uint64_t x) {  // MurmurHash3's 64-bit finaliser: a bijection
  x ^= x >> 33;
  x *= UINT64_C(0xFF51AFD7ED558CCD);
  x ^= x >> 33;
  x *= UINT64_C(0xC4CEB9FE1A85EC53);
  return x ^ x >> 33;
}

FABRIC_INLINE uint64_t step(uint64_t hash, uint64_t word) { return finish(hash * GOLDEN + word); }

inline uint64_t start_of(uint64_t seed) { return finish(seed + GOLDEN); }

// --- words of single values -----------------------------------------------------------------

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

inline uint64_t modulo_61(uint64_t x) {
  x = (x & MERSENNE_61) + (x >> 61);
  return x >= MERSENNE_61 ? x - MERSENNE_61 : x;
}

inline uint64_t multiply_61(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  const uint64_t low = static_cast<uint64_t>(product) & MERSENNE_61;
  return modulo_61(low + static_cast<uint64_t>(product >> 61));
}

// 10^-scale mod 2^61 - 1: what makes 1.5 and 1.500 the same word.
inline uint64_t scale_factor(int32_t scale) {
  uint64_t base = scale < 0 ? 10 : TENTH, factor = 1;
  for (int64_t left = scale < 0 ? -int64_t{scale} : scale; left > 0; left >>= 1) {
    if (left & 1) factor = multiply_61(factor, base);
    base = multiply_61(base, base);
  }
  return factor;
}

// value * 10^-scale mod 2^61 - 1, as Python hashes its own numbers.
inline uint64_t decimal_word(const uint8_t* value, int32_t width, uint64_t factor) {
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

FABRIC_INLINE uint64_t double_word(double x) {
  x += 0.0;  // -0.0 becomes 0.0
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return x != x ? NAN_BITS : bits;
}

inline double half_to_double(uint16_t half) {
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

// --- loops, compiled for each CPU -------------------------------------------------------------

template <class T>
struct IntegerWords {
  static FABRIC_INLINE void run(const Raw<T>* __restrict in, uint64_t* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<uint64_t>(static_cast<int64_t>(in[i].value));
    }
  }
};

struct ScaleWords {  // time units to nanoseconds
  static FABRIC_INLINE void run(uint64_t* __restrict words, int64_t n, uint64_t unit) {
    for (int64_t i = 0; i < n; ++i) words[i] *= unit;
  }
};

template <class T>
struct FloatWords {
  static FABRIC_INLINE void run(const Raw<T>* __restrict in, uint64_t* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = double_word(static_cast<double>(in[i].value));
  }
};

struct MaskNulls {  // words of null rows become NULL_WORD
  static FABRIC_INLINE void run(const uint8_t* bits, int64_t first, uint64_t* __restrict words,
                                int64_t n) {
    for (int64_t i = 0; i < n; i += 64) {
      const int64_t count = n - i < 64 ? n - i : 64;
      const uint64_t valid = load_bits(bits, first + i, count);
      for (int64_t j = 0; j < count; ++j) {
        words[i + j] = valid >> j & 1 ? words[i + j] : NULL_WORD;
      }
    }
  }
};

struct BooleanWords {
  static FABRIC_INLINE void run(const uint8_t* bits, int64_t first, uint64_t* __restrict out,
                                int64_t n) {
    for (int64_t i = 0; i < n; i += 64) {
      const int64_t count = n - i < 64 ? n - i : 64;
      const uint64_t word = load_bits(bits, first + i, count);
      for (int64_t j = 0; j < count; ++j) out[i + j] = word >> j & 1;
    }
  }
};

// Keys are read first, often from memory: fetch them ahead while earlier ones are worked on.
constexpr int64_t KEYS_AHEAD_BYTES = 16384;
constexpr int64_t TILE = 64;

template <class Work>
FABRIC_INLINE void by_tiles(const Raw<uint64_t>* words, int64_t n, Work work) {
  int64_t i = 0;
  for (; i + TILE <= n; i += TILE) {
    const char* ahead = reinterpret_cast<const char*>(words + i) + KEYS_AHEAD_BYTES;
    for (int64_t line = 0; line < TILE; line += 8) __builtin_prefetch(ahead + line * 8);
    for (int64_t j = i; j < i + TILE; ++j) work(j);
  }
  for (; i < n; ++i) work(i);
}

struct StepWords {
  static FABRIC_INLINE void run(uint64_t* __restrict hashes, const Raw<uint64_t>* __restrict words,
                                int64_t n) {
    by_tiles(words, n, [=](int64_t i) FABRIC_LAMBDA { hashes[i] = step(hashes[i], words[i]); });
  }
};

struct StepFirst {  // the first key: every row starts from the same hash
  static FABRIC_INLINE void run(uint64_t* __restrict hashes, const Raw<uint64_t>* __restrict words,
                                int64_t n, uint64_t start) {
    start *= GOLDEN;
    by_tiles(words, n, [=](int64_t i) FABRIC_LAMBDA { hashes[i] = finish(start + words[i]); });
  }
};

}  // namespace fabric
