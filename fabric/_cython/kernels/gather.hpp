// Moving rows of fixed width, bits and bytes: the loops under take.cpp.
//
// One job: copy values to new places. *Gather* reads `in[rows[j]]` and writes in order; *scatter*
// reads in order and writes `out[target[i]]`. No allocation, no layout, no null logic.
#pragma once
#include "arrays.hpp"
#include "cpu.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fabric {
namespace {

struct Wide16 { uint64_t part[2]; };
struct Wide32 { uint64_t part[4]; };

// The input is fetched 16 KiB ahead by hand: between a few rising output streams the CPU does not
// see the input for a stream (4 to 16 partitions, input not in cache: 2.4 times as fast).
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
void move_fixed(const uint8_t* in, int64_t width, const uint32_t* rows,
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
int64_t gather_bits(const uint8_t* bits, int64_t first, const uint32_t* rows, int64_t n,
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

constexpr int64_t ROWS_AHEAD = 16;  // how far ahead bytes at random places are fetched

// Byte strings of rows[j], one after the other, where `to` says.
template <class Offset>
void gather_bytes(const Raw<Offset>* from, const uint8_t* data, const uint8_t* end,
                  const uint32_t* rows, int64_t n, const Offset* to, uint8_t* out) {
  for (int64_t j = 0; j < n; ++j) {
    if (j + ROWS_AHEAD < n) __builtin_prefetch(data + from[rows[j + ROWS_AHEAD]]);
    copy_bytes(data + from[rows[j]], end, to[j + 1] - to[j], out + to[j]);
  }
}

// Offsets for strings that are scattered; rows that `valid` (from bit `first` on) calls null are
// empty. Their sum is no more than the input's, so it fits.
template <class Offset>
void scatter_offsets(const Raw<Offset>* from, const uint32_t* target, int64_t n,
                     const uint8_t* valid, int64_t first, Offset* to) {
  for (int64_t i = 0; i < n; ++i) {
    __builtin_prefetch(reinterpret_cast<const char*>(from + i) + FETCH_AHEAD_BYTES / 2);
    const bool there = valid == nullptr || bit_at(valid, first + i);
    to[target[i]] = there ? from[i + 1] - from[i] : 0;
  }
  Offset sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    const Offset size = to[j];
    to[j] = sum;
    sum += size;
  }
  to[n] = sum;
}

#if defined(__x86_64__)
// Byte strings of row i to where target[i] belongs: the input is read in order, and masks copy the
// exact bytes without a branch on their number (a quarter of the time of gathering them).
template <class Offset>
FABRIC_AVX512 void scatter_bytes(const Raw<Offset>* from, const uint8_t* data,
                                 const uint32_t* target, int64_t n, const Offset* to,
                                 uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* source = data + from[i];
    __builtin_prefetch(source + FETCH_AHEAD_BYTES / 4);
    if (i + ROWS_AHEAD < n) __builtin_prefetch(out + to[target[i + ROWS_AHEAD]], 1);
    const int64_t place = target[i];
    int64_t left = to[place + 1] - to[place];
    for (uint8_t* at = out + to[place];; at += 64, source += 64, left -= 64) {
      const __mmask64 mask = _bzhi_u64(~UINT64_C(0), static_cast<unsigned>(left < 64 ? left : 64));
      _mm512_mask_storeu_epi8(at, mask, _mm512_maskz_loadu_epi8(mask, source));
      if (__builtin_expect(left <= 64, 1)) break;
    }
  }
}
#endif

}  // namespace
}  // namespace fabric
