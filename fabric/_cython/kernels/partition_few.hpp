// Counting and placing rows for 16 partitions or fewer, 64 rows at a time.
//
// One job: the AVX-512 form of count_rows and place_rows. One compare gives the rows of a partition
// as a bit mask; adding 1 under it counts them, and expanding 0, 1, 2, … into it is their rank.
// Half the time of the tables in memory; from 32 partitions on the tables win.
#pragma once
#include "cpu.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace fabric {

constexpr int32_t FEW_PARTITIONS_MAX = 16;

struct FewPartitions {
  // The 64 ids from `ids` on as bytes; rows past the end get an id that no partition has.
  FABRIC_AVX512_INLINE __m512i load_ids(const uint16_t* ids, int64_t n) {
    const __m512i none = _mm512_set1_epi16(255);
    const __mmask32 low = n >= 32 ? ~0u : (1u << n) - 1;
    const __mmask32 high = n >= 64 ? ~0u : n <= 32 ? 0u : (1u << (n - 32)) - 1;
    const __m512i first = _mm512_mask_loadu_epi16(none, low, ids);
    const __m512i second = _mm512_mask_loadu_epi16(none, high, ids + 32);
    const __m512i bytes = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(first));
    return _mm512_inserti64x4(bytes, _mm512_cvtepi16_epi8(second), 1);
  }

  // Population of 16 masks, as 32-bit lanes.
  FABRIC_AVX512_INLINE __m512i populations(const uint64_t* masks) {
    const __m512i low = _mm512_popcnt_epi64(_mm512_load_si512(masks));
    const __m512i high = _mm512_popcnt_epi64(_mm512_load_si512(masks + 8));
    const __m512i lanes = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(low));
    return _mm512_inserti64x4(lanes, _mm512_cvtepi64_epi32(high), 1);
  }

  // Add the rows of each partition to counts[0 .. 15]: 16 sums of 64 bytes each, no memory between.
  FABRIC_AVX512 static void count(const uint16_t* ids, int64_t n, uint32_t* counts) {
    constexpr int64_t ROWS_MAX = 255 * 64;  // then a byte may be full
    for (; n > ROWS_MAX; ids += ROWS_MAX, n -= ROWS_MAX) count(ids, ROWS_MAX, counts);
    __m512i sums[FEW_PARTITIONS_MAX] = {};
    const __m512i one = _mm512_set1_epi8(1);
    for (int64_t i = 0; i < n; i += 64) {
      const __m512i bytes = load_ids(ids + i, n - i);
#pragma GCC unroll 16
      for (int p = 0; p < FEW_PARTITIONS_MAX; ++p) {
        const __m512i wanted = _mm512_set1_epi8(static_cast<char>(p));
        const __mmask64 rows = _mm512_cmpeq_epi8_mask(bytes, wanted);
        sums[p] = _mm512_mask_add_epi8(sums[p], rows, sums[p], one);
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < FEW_PARTITIONS_MAX; ++p) {
      const __m512i eights = _mm512_sad_epu8(sums[p], _mm512_setzero_si512());
      counts[p] += static_cast<uint32_t>(_mm512_reduce_add_epi64(eights));
    }
  }

  // target[i] = positions[ids[i]]++ for 16 positions.
  FABRIC_AVX512 static void place(const uint16_t* ids, int64_t n, uint32_t* positions,
                               uint32_t* target) {
    alignas(64) uint8_t numbers[64];
    for (int i = 0; i < 64; ++i) numbers[i] = static_cast<uint8_t>(i);
    const __m512i iota = _mm512_load_si512(numbers);
    __m512i next = _mm512_loadu_si512(positions);
    alignas(64) uint64_t masks[FEW_PARTITIONS_MAX];
    for (int64_t i = 0; i < n; i += 64) {
      const __m512i bytes = load_ids(ids + i, n - i);
      __m512i ranks[4] = {};  // four chains of expansions run side by side
#pragma GCC unroll 16
      for (int p = 0; p < FEW_PARTITIONS_MAX; ++p) {
        const __m512i wanted = _mm512_set1_epi8(static_cast<char>(p));
        const __mmask64 rows = _mm512_cmpeq_epi8_mask(bytes, wanted);
        masks[p] = rows;
        ranks[p & 3] = _mm512_mask_expand_epi8(ranks[p & 3], rows, iota);
      }
      const __m512i rank = _mm512_or_si512(_mm512_or_si512(ranks[0], ranks[1]),
                                           _mm512_or_si512(ranks[2], ranks[3]));
      store<0>(bytes, rank, next, n - i, target + i);
      store<1>(bytes, rank, next, n - i, target + i);
      store<2>(bytes, rank, next, n - i, target + i);
      store<3>(bytes, rank, next, n - i, target + i);
      next = _mm512_add_epi32(next, populations(masks));
    }
    _mm512_storeu_si512(positions, next);
  }

 private:
  template <int PART>
  FABRIC_AVX512_INLINE void store(__m512i bytes, __m512i rank, __m512i next, int64_t left,
                               uint32_t* target) {
    const int64_t rows = left - 16 * PART;
    const __mmask16 there = rows >= 16 ? 0xFFFF : rows <= 0 ? 0 : (1u << rows) - 1;
    const __m512i ids = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, PART));
    const __m512i ranks = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(rank, PART));
    const __m512i places = _mm512_add_epi32(_mm512_permutexvar_epi32(ids, next), ranks);
    _mm512_mask_storeu_epi32(target + 16 * PART, there, places);
  }
};

}  // namespace fabric
#endif
