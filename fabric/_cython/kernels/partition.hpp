// Counting sort of rows by partition: ids, counts, target positions.
//
// One job: loops over partition ids. Hashing is hash.hpp's, moving columns take.hpp's. 32-bit
// positions: a batch holds fewer than 2^32 rows.
#pragma once
#include <algorithm>
#include <vector>

#include "cpu.hpp"

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

// counts[p] = rows of partition p. Four tables when they fit the cache, so that equal neighbours do
// not wait for each other's store.
inline void count_rows(const uint16_t* ids, int64_t n, int32_t n_partitions, uint32_t* counts) {
  const size_t width = static_cast<size_t>(n_partitions);
  std::fill(counts, counts + width, 0);
  int64_t i = 0;
  if (width <= 1024) {
    uint32_t extra[3][1024];
    for (auto& table : extra) std::fill(table, table + width, 0);
    for (; i + 4 <= n; i += 4) {
      ++counts[ids[i]];
      ++extra[0][ids[i + 1]];
      ++extra[1][ids[i + 2]];
      ++extra[2][ids[i + 3]];
    }
    for (size_t p = 0; p < width; ++p) counts[p] += extra[0][p] + extra[1][p] + extra[2][p];
  }
  for (; i < n; ++i) ++counts[ids[i]];
}

// offsets[p] = first row of partition p; positions is a copy that `place_rows` moves on.
inline void offsets_of(const uint32_t* counts, int32_t n_partitions, int64_t* offsets,
                       uint32_t* positions) {
  int64_t sum = 0;
  for (int32_t p = 0; p < n_partitions; ++p) {
    const uint32_t count = counts[p];
    offsets[p] = sum;
    positions[p] = static_cast<uint32_t>(sum);
    sum += count;
  }
  offsets[n_partitions] = sum;
}

// target[i] = where row i goes; rows of one partition keep their order.
inline void place_rows(const uint16_t* ids, int64_t n, uint32_t* positions, uint32_t* target) {
  for (int64_t i = 0; i < n; ++i) target[i] = positions[ids[i]]++;
}

// The inverse: rows[target[i]] = i.
inline void invert(const uint32_t* target, int64_t n, uint32_t* rows) {
  for (int64_t i = 0; i < n; ++i) rows[target[i]] = static_cast<uint32_t>(i);
}

// Group rows of a hash array: offsets (n_partitions + 1) and row ids in partition order.
inline void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                       int64_t* offsets, int64_t* row_ids) {
  std::vector<uint16_t> ids(static_cast<size_t>(n));
  std::vector<uint32_t> counts(static_cast<size_t>(n_partitions));
  partition_ids(cpu, hashes, n, n_partitions, ids.data());
  count_rows(ids.data(), n, n_partitions, counts.data());
  offsets_of(counts.data(), n_partitions, offsets, counts.data());
  for (int64_t i = 0; i < n; ++i) row_ids[counts[ids[static_cast<size_t>(i)]]++] = i;
}

}  // namespace fabric
