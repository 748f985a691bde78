// Counting sort of rows by partition: ids, counts, target positions.
//
// One job: loops over partition ids. Hashing is hash.hpp's, moving columns take.hpp's. 32-bit
// positions: a batch holds fewer than 2^32 rows.
#pragma once
#include <algorithm>
#include <vector>

#include "cpu.hpp"
#include "partition_few.hpp"

namespace fabric {

constexpr int32_t PARTITIONS_MAX = 1 << 15;

struct PartitionIds {  // the top 15 bits are the key group; each partition owns a range of them
  static FABRIC_INLINE void run(const uint64_t* __restrict hashes, uint16_t* __restrict ids,
                                int64_t n, uint32_t n_partitions) {
    for (int64_t i = 0; i < n; ++i) {
      ids[i] = static_cast<uint16_t>(static_cast<uint32_t>(hashes[i] >> 49) * n_partitions >> 15);
    }
  }
};

inline void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                          uint16_t* ids) {
  by_cpu<PartitionIds>(cpu, hashes, ids, n, static_cast<uint32_t>(n_partitions));
}

// How many tables of positions a batch is counted and placed with. Four segments of the batch side
// by side keep equal neighbours from waiting for each other's store; with many partitions the
// tables would leave the L1 cache, and neighbours are rarely equal. Few partitions need one table.
constexpr int32_t N_SEGMENTS = 4;
constexpr int32_t SEGMENTED_PARTITIONS_MAX = 1024;
constexpr int32_t TABLE_MIN = 16;  // entries

inline bool is_few(int cpu, int32_t n_partitions) {
#if defined(__x86_64__)
  return cpu == CPU_AVX512 && n_partitions <= FEW_PARTITIONS_MAX;
#else
  return false;
#endif
}

inline int32_t n_tables(int cpu, int32_t n_partitions) {
  return is_few(cpu, n_partitions) || n_partitions > SEGMENTED_PARTITIONS_MAX ? 1 : N_SEGMENTS;
}

// Entries to allocate for the tables of count_rows, offsets_of and place_rows.
inline int64_t table_entries(int cpu, int32_t n_partitions) {
  return std::max<int64_t>(TABLE_MIN, int64_t{n_tables(cpu, n_partitions)} * n_partitions);
}

// How the rows of a batch fall into segments: three of `quarter` rows, and the rest.
struct Segments {
  int64_t quarter;  // 0 when there is one table
  int64_t width;    // from one table to the next

  Segments(int cpu, int64_t n, int32_t n_partitions) {
    const bool many = n_tables(cpu, n_partitions) > 1;
    quarter = many ? n / N_SEGMENTS : 0;
    width = many ? n_partitions : 0;
  }

  // Call `touch(row, table)` for rows [first, first + n) of each quarter, side by side.
  template <class Touch>
  FABRIC_INLINE void side_by_side(int64_t first, int64_t n, uint32_t* tables, Touch touch) const {
    for (int64_t i = first; i < first + n; ++i) {
      touch(i, tables);
      touch(quarter + i, tables + width);
      touch(2 * quarter + i, tables + 2 * width);
      touch(3 * quarter + i, tables + 3 * width);
    }
  }
  int64_t rest() const { return N_SEGMENTS * quarter; }
  uint32_t* last(uint32_t* tables) const { return tables + 3 * width; }
};

// Add the rows [first, first + n) of every quarter to the tables.
inline void count_quarters(const Segments& segments, const uint16_t* ids, int64_t first, int64_t n,
                           uint32_t* tables) {
  segments.side_by_side(first, n, tables, [ids](int64_t i, uint32_t* table) { ++table[ids[i]]; });
}

// Add the rows [first, first + n), which belong to the last segment or the only one.
inline void count_last(int cpu, const Segments& segments, const uint16_t* ids, int64_t first,
                       int64_t n, int32_t n_partitions, uint32_t* tables) {
#if defined(__x86_64__)
  if (is_few(cpu, n_partitions)) return FewPartitions::count(ids + first, n, tables);
#endif
  uint32_t* table = segments.last(tables);
  for (int64_t i = first; i < first + n; ++i) ++table[ids[i]];
}

// offsets[p] = first row of partition p; each count becomes the position where its rows begin.
inline void offsets_of(int cpu, int32_t n_partitions, uint32_t* tables, int64_t* offsets) {
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

// target[i] = where row i goes; rows of one partition keep their order. Moves the positions on.
inline void place_rows(int cpu, const uint16_t* ids, int64_t n, int32_t n_partitions,
                       uint32_t* tables, uint32_t* target) {
#if defined(__x86_64__)
  if (is_few(cpu, n_partitions)) return FewPartitions::place(ids, n, tables, target);
#endif
  const Segments segments(cpu, n, n_partitions);
  segments.side_by_side(0, segments.quarter, tables, [ids, target](int64_t i, uint32_t* table) {
    target[i] = table[ids[i]]++;
  });
  uint32_t* table = segments.last(tables);
  for (int64_t i = segments.rest(); i < n; ++i) target[i] = table[ids[i]]++;
}

// How many rows from `row` on are placed at once: with few partitions, so few that what moves them
// next overlaps with placing those after them.
inline int64_t place_block(int cpu, int64_t row, int64_t n, int32_t n_partitions) {
  constexpr int64_t FEW_BLOCK = 256;
  return is_few(cpu, n_partitions) ? std::min(FEW_BLOCK, n - row) : n - row;
}

// The inverse: rows[target[i]] = i.
inline void invert(const uint32_t* target, int64_t n, uint32_t* rows) {
  for (int64_t i = 0; i < n; ++i) rows[target[i]] = static_cast<uint32_t>(i);
}

// Group rows of a hash array: offsets (n_partitions + 1) and row ids in partition order.
inline void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                       int64_t* offsets, int64_t* row_ids) {
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
