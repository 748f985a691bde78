// Moving rows of fixed width, bits and bytes: the loops under take_column.hpp.
//
// One job: copy values to new places. *Gather* reads `in[rows[j]]` and writes in order; *scatter*
// reads in order and writes `out[target[i]]`. No allocation, no layout, no null logic.
#pragma once
#include "arrow_c.hpp"
#include "cpu.hpp"

namespace fabric {

struct Wide16 { uint64_t part[2]; };
struct Wide32 { uint64_t part[4]; };

// The input is fetched 16 KiB ahead by hand: between a few rising output streams the CPU does not see
// the input for a stream (4 to 16 partitions, input not in cache: 2.4 times as fast).
constexpr int64_t FETCH_AHEAD_BYTES = 16384;

template <class T>
void scatter_values(const Raw<T>* __restrict in, const uint32_t* __restrict target, int64_t n,
                    T* __restrict out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __builtin_prefetch(reinterpret_cast<const char*>(in + i) + FETCH_AHEAD_BYTES);
    for (int64_t k = i; k < i + 8; ++k) out[target[k]] = in[k].value;
  }
  for (; i < n; ++i) out[target[i]] = in[i].value;
}

template <class T>
void gather_values(const Raw<T>* __restrict in, const uint32_t* __restrict rows, int64_t n,
                   T* __restrict out) {
  for (int64_t j = 0; j < n; ++j) out[j] = in[rows[j]].value;
}

template <class T>
void move_typed(const uint8_t* in, const uint32_t* rows, const uint32_t* target, int64_t n,
                uint8_t* out) {
  const auto* from = reinterpret_cast<const Raw<T>*>(in);
  T* to = reinterpret_cast<T*>(out);
  if (target != nullptr) scatter_values<T>(from, target, n, to);
  else gather_values<T>(from, rows, n, to);
}

// Rows of `width` bytes, by target where there is one, else by rows.
inline void move_fixed(const uint8_t* in, int64_t width, const uint32_t* rows,
                       const uint32_t* target, int64_t n, uint8_t* out) {
  switch (width) {
    case 1: return move_typed<uint8_t>(in, rows, target, n, out);
    case 2: return move_typed<uint16_t>(in, rows, target, n, out);
    case 4: return move_typed<uint32_t>(in, rows, target, n, out);
    case 8: return move_typed<uint64_t>(in, rows, target, n, out);
    case 16: return move_typed<Wide16>(in, rows, target, n, out);
    case 32: return move_typed<Wide32>(in, rows, target, n, out);
    default: break;
  }
  const size_t size = static_cast<size_t>(width);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t from = target != nullptr ? k : rows[k], to = target != nullptr ? target[k] : k;
    std::memcpy(out + to * width, in + from * width, size);
  }
}

// Gather bits [first + rows[j]]; the rest of the last byte is zero. Returns how many are set.
inline int64_t gather_bits(const uint8_t* bits, int64_t first, const uint32_t* rows, int64_t n,
                           uint8_t* out) {
  int64_t n_set = 0;
  for (int64_t j = 0; j < n; j += 8) {
    const int64_t count = n - j < 8 ? n - j : 8;
    unsigned byte = 0;
    for (int64_t k = 0; k < count; ++k) {
      byte |= static_cast<unsigned>(bit_at(bits, first + rows[j + k])) << k;
    }
    n_set += __builtin_popcount(byte);
    out[j >> 3] = static_cast<uint8_t>(byte);
  }
  return n_set;
}

inline int64_t count_bits(const uint8_t* bits, int64_t first, int64_t n) {
  int64_t n_set = 0;
  for (int64_t i = 0; i < n; i += 64) {
    n_set += __builtin_popcountll(load_bits(bits, first + i, n - i < 64 ? n - i : 64));
  }
  return n_set;
}

// Copy `size` bytes in steps of 16 that may run past the end of the target (which the next copy
// writes over, or slack) but never past `end` of the source.
inline void copy_bytes(const uint8_t* from, const uint8_t* end, int64_t size, uint8_t* to) {
  if (end - from >= size + 16) {
    std::memcpy(to, from, 16);
    for (int64_t k = 16; k < size; k += 16) std::memcpy(to + k, from + k, 16);
  } else if (size > 0) {
    std::memcpy(to, from, static_cast<size_t>(size));
  }
}

}  // namespace fabric
