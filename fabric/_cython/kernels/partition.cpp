// Loops over partition ids.
//
// One job: how rows are counted and placed, compiled for each CPU: by tables in memory, or by masks
// where partitions are few.
#include "partition.hpp"

#include <algorithm>
#include <vector>

#include "cpu.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fabric {
namespace {

#if defined(__x86_64__)
// Counting and placing rows for 16 partitions or fewer, 64 rows at a time: the AVX-512 form. One
// compare gives the rows of a partition as a bit mask; adding 1 under it counts them, and expanding
// 0, 1, 2, … into it is their rank. Half the time of the tables in memory; from 32 partitions on
// the tables win.
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
#endif

struct PartitionIds {  // the top 15 bits are the key group; each partition owns a range of them
  static FABRIC_INLINE void run(const uint64_t* __restrict hashes, uint16_t* __restrict ids,
                                int64_t n, uint32_t n_partitions) {
    for (int64_t i = 0; i < n; ++i) {
      ids[i] = static_cast<uint16_t>(static_cast<uint32_t>(hashes[i] >> 49) * n_partitions >> 15);
    }
  }
};

// How many tables of positions a batch is counted and placed with. Four segments of the batch side
// by side keep equal neighbours from waiting for each other's store; with many partitions the
// tables would leave the L1 cache, and neighbours are rarely equal. Few partitions need one table.
constexpr int32_t SEGMENTED_PARTITIONS_MAX = 1024;
constexpr int32_t TABLE_MIN = 16;  // entries

bool is_few(int cpu, int32_t n_partitions) {
#if defined(__x86_64__)
  return cpu == CPU_AVX512 && n_partitions <= FEW_PARTITIONS_MAX;
#else
  return false;
#endif
}

int32_t n_tables(int cpu, int32_t n_partitions) {
  return is_few(cpu, n_partitions) || n_partitions > SEGMENTED_PARTITIONS_MAX ? 1 : N_SEGMENTS;
}

// Call `touch(row, table)` for rows [first, first + n) of each quarter, side by side.
template <class Touch>
FABRIC_INLINE void side_by_side(const Segments& segments, int64_t first, int64_t n,
                                uint32_t* tables, Touch touch) {
  const int64_t quarter = segments.quarter, width = segments.width;
  for (int64_t i = first; i < first + n; ++i) {
    touch(i, tables);
    touch(quarter + i, tables + width);
    touch(2 * quarter + i, tables + 2 * width);
    touch(3 * quarter + i, tables + 3 * width);
  }
}

}  // namespace

void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                   uint16_t* ids) {
  by_cpu<PartitionIds>(cpu, hashes, ids, n, static_cast<uint32_t>(n_partitions));
}

int64_t table_entries(int cpu, int32_t n_partitions) {
  return std::max<int64_t>(TABLE_MIN, int64_t{n_tables(cpu, n_partitions)} * n_partitions);
}

Segments::Segments(int cpu, int64_t n, int32_t n_partitions) {
  const bool many = n_tables(cpu, n_partitions) > 1;
  quarter = many ? n / N_SEGMENTS : 0;
  width = many ? n_partitions : 0;
}

void count_quarters(const Segments& segments, const uint16_t* ids, int64_t first, int64_t n,
                    uint32_t* tables) {
  side_by_side(segments, first, n, tables, [ids](int64_t i, uint32_t* table) { ++table[ids[i]]; });
}

void count_last(int cpu, const Segments& segments, const uint16_t* ids, int64_t first, int64_t n,
                int32_t n_partitions, uint32_t* tables) {
#if defined(__x86_64__)
  if (is_few(cpu, n_partitions)) return FewPartitions::count(ids + first, n, tables);
#endif
  uint32_t* table = segments.last(tables);
  for (int64_t i = first; i < first + n; ++i) ++table[ids[i]];
}

void offsets_of(int cpu, int32_t n_partitions, uint32_t* tables, int64_t* offsets) {
  const int32_t n = n_tables(cpu, n_partitions);
  uint32_t sum = 0;
  for (int32_t p = 0; p < n_partitions; ++p) {
    offsets[p] = sum;
    for (int32_t s = 0; s < n; ++s) {
      uint32_t& entry = tables[static_cast<int64_t>(s) * n_partitions + p];
      const uint32_t count = entry;
      entry = sum;
      sum += count;
    }
  }
  offsets[n_partitions] = sum;
}

void place_rows(int cpu, const uint16_t* ids, int64_t n, int32_t n_partitions, uint32_t* tables,
                uint32_t* target) {
#if defined(__x86_64__)
  if (is_few(cpu, n_partitions)) return FewPartitions::place(ids, n, tables, target);
#endif
  const Segments segments(cpu, n, n_partitions);
  const auto place = [ids, target](int64_t i, uint32_t* table) { target[i] = table[ids[i]]++; };
  side_by_side(segments, 0, segments.quarter, tables, place);
  uint32_t* table = segments.last(tables);
  for (int64_t i = segments.rest(); i < n; ++i) target[i] = table[ids[i]]++;
}

int64_t place_block(int cpu, int64_t row, int64_t n, int32_t n_partitions) {
  constexpr int64_t FEW_BLOCK = 256;
  return is_few(cpu, n_partitions) ? std::min(FEW_BLOCK, n - row) : n - row;
}

void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions, int64_t* offsets,
                int64_t* row_ids) {
  std::vector<uint16_t> ids(static_cast<size_t>(n));
  std::vector<uint32_t> tables(static_cast<size_t>(table_entries(cpu, n_partitions)));
  std::vector<uint32_t> target(static_cast<size_t>(n));
  const Segments segments(cpu, n, n_partitions);
  partition_ids(cpu, hashes, n, n_partitions, ids.data());
  count_quarters(segments, ids.data(), 0, segments.quarter, tables.data());
  count_last(cpu, segments, ids.data(), segments.rest(), n - segments.rest(), n_partitions,
             tables.data());
  offsets_of(cpu, n_partitions, tables.data(), offsets);
  place_rows(cpu, ids.data(), n, n_partitions, tables.data(), target.data());
  for (int64_t i = 0; i < n; ++i) row_ids[target[static_cast<size_t>(i)]] = i;
}

}  // namespace fabric
