// Counting sort of rows by partition: ids, counts, target positions.
//
// One job: what is asked of partition ids, a block of rows or a batch at a time. Hashing is
// hash.hpp's, moving columns take.hpp's. 32-bit positions: a batch holds fewer than 2^32 rows.
#pragma once
#include <cstdint>

namespace fabric {

constexpr int32_t PARTITIONS_MAX = 1 << 15;
constexpr int32_t N_SEGMENTS = 4;

// The top 15 bits of a hash are the key group; each partition owns a range of them.
void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                   uint16_t* ids);

// Entries to allocate for the tables of positions: to be counted up from zeros.
int64_t table_entries(int cpu, int32_t n_partitions);

// How the rows of a batch fall into segments, counted and placed side by side, each by a table of
// its own: three of `quarter` rows, and the rest. Or there is one table.
struct Segments {
  int64_t quarter;  // 0 when there is one table
  int64_t width;    // from one table to the next

  Segments(int cpu, int64_t n, int32_t n_partitions);
  int64_t rest() const { return N_SEGMENTS * quarter; }
  uint32_t* last(uint32_t* tables) const { return tables + 3 * width; }
};

// Add the rows [first, first + n) of every quarter to the tables.
void count_quarters(const Segments& segments, const uint16_t* ids, int64_t first, int64_t n,
                    uint32_t* tables);

// Add the rows [first, first + n), which belong to the last segment or the only one.
void count_last(int cpu, const Segments& segments, const uint16_t* ids, int64_t first, int64_t n,
                int32_t n_partitions, uint32_t* tables);

// offsets[p] = first row of partition p; each count becomes the position where its rows begin.
void offsets_of(int cpu, int32_t n_partitions, uint32_t* tables, int64_t* offsets);

// target[i] = where row i goes; rows of one partition keep their order. Moves the positions on.
void place_rows(int cpu, const uint16_t* ids, int64_t n, int32_t n_partitions, uint32_t* tables,
                uint32_t* target);

// How many rows from `row` on are placed at once: with few partitions, so few that what moves them
// next overlaps with placing those after them.
int64_t place_block(int cpu, int64_t row, int64_t n, int32_t n_partitions);

// Group rows of a hash array: offsets (n_partitions + 1) and row ids in partition order.
void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions, int64_t* offsets,
                int64_t* row_ids);

}  // namespace fabric
