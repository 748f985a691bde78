// Hash, count, place and take over one batch.
#include "partition_batch.hpp"

#include <arrow/record_batch.h>

#include <algorithm>
#include <stdexcept>

#include "memory.hpp"
#include "arrays.hpp"
#include "hash.hpp"
#include "partition.hpp"
#include "take.hpp"
#include "wire/batches.hpp"
#include "wire/header.hpp"

namespace fabric {
namespace {

std::vector<Column> columns_of(const Type& type, const ArrowArray& batch,
                               const std::vector<int32_t>& keys, int cpu) {
  std::vector<Column> columns;
  columns.reserve(keys.size());
  for (const int32_t key : keys) {
    columns.emplace_back(type.children[static_cast<size_t>(key)], *batch.children[key], cpu);
  }
  return columns;
}

}  // namespace

BatchPartitioner::BatchPartitioner(const ArrowSchema& schema, const std::vector<int32_t>& keys,
                                   int32_t n_partitions, uint64_t seed, bool numbered)
    : type_(std::make_unique<const Type>(parse_type(schema))), keys_(keys),
      n_partitions_(n_partitions), start_(start_of(seed)), numbered_(numbered) {}

BatchPartitioner::~BatchPartitioner() = default;

bool BatchPartitioner::run(ArrowArray& batch, int cpu, Allocator& allocator, int64_t* offsets,
                           ArrowArray& out) const {
  const int64_t n = batch.length;
  Scratch<uint16_t> ids(allocator, n);
  Scratch<uint32_t> tables(allocator, table_entries(cpu, n_partitions_));
  std::fill(tables.data(), tables.data() + table_entries(cpu, n_partitions_), 0);
  assign_and_count(batch, cpu, ids.data(), tables.data());
  offsets_of(cpu, n_partitions_, tables.data(), offsets);
  for (int32_t p = 0; p < n_partitions_; ++p) {
    if (offsets[p + 1] - offsets[p] == n) return false;
  }
  Scratch<uint32_t> target(allocator, n);
  const auto place = [&](int64_t row) {
    const int64_t n_rows = place_block(cpu, row, n, n_partitions_);
    const uint16_t* from = ids.data() + row;
    place_rows(cpu, from, n_rows, n_partitions_, tables.data(), target.data() + row);
    return n_rows;
  };
  const Order order = Order::scatter(target.data(), n, allocator);
  take_placed(*type_, batch, order, place, cpu, allocator, out);
  return true;
}

// Block by block, so that counting one block hides the memory behind the next.
void BatchPartitioner::assign_and_count(const ArrowArray& batch, int cpu, uint16_t* ids,
                                        uint32_t* tables) const {
  const std::vector<Column> columns = columns_of(*type_, batch, keys_, cpu);
  const auto assign = [&](int64_t row, int64_t n) {
    if (numbered_) return take_numbers(batch, row, n, ids + row);
    uint64_t hashes[HASH_BLOCK];
    hash_block(columns, batch.offset + row, n, start_, cpu, hashes);
    partition_ids(cpu, hashes, n, n_partitions_, ids + row);
  };
  const Segments segments(cpu, batch.length, n_partitions_);
  for (int64_t row = 0; row < segments.quarter; row += HASH_BLOCK) {
    const int64_t n = std::min(HASH_BLOCK, segments.quarter - row);
    for (int64_t s = 0; s < N_SEGMENTS; ++s) assign(s * segments.quarter + row, n);
    count_quarters(segments, ids, row, n, tables);
  }
  for (int64_t row = segments.rest(); row < batch.length; row += HASH_BLOCK) {
    const int64_t n = std::min(HASH_BLOCK, batch.length - row);
    assign(row, n);
    count_last(cpu, segments, ids, row, n, n_partitions_, tables);
  }
}

void BatchPartitioner::take_numbers(const ArrowArray& batch, int64_t row, int64_t n,
                                    uint16_t* ids) const {
  const ArrowArray& column = *batch.children[keys_[0]];
  const auto* from = static_cast<const int32_t*>(column.buffers[1]);
  from += batch.offset + column.offset + row;
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    most = std::max(most, static_cast<uint32_t>(from[i]));
    ids[i] = static_cast<uint16_t>(from[i]);
  }
  if (most >= static_cast<uint32_t>(n_partitions_)) {
    throw std::invalid_argument("a row has the number of no partition");
  }
}

arrow::Result<int64_t> misplaced_row(const arrow::RecordBatch& batch,
                                     const std::vector<int32_t>& keys, int32_t n_partitions,
                                     const std::vector<PartitionRows>& runs, int cpu,
                                     uint32_t& found) {
  Exported exported;
  ARROW_RETURN_NOT_OK(exported.fill(batch));
  const Type type = parse_type(exported.schema);
  const std::vector<Column> columns = columns_of(type, exported.array, keys, cpu);
  uint64_t hashes[HASH_BLOCK];
  uint16_t ids[HASH_BLOCK];
  int64_t begin = 0;
  for (const auto& run : runs) {
    const int64_t end = begin + static_cast<int64_t>(run.rows);
    while (begin < end) {
      const int64_t n = std::min(HASH_BLOCK, end - begin);
      hash_block(columns, exported.array.offset + begin, n, start_of(0), cpu, hashes);
      partition_ids(cpu, hashes, n, n_partitions, ids);
      for (int64_t i = 0; i < n; ++i) {
        found = ids[i];
        if (found != run.partition) return begin + i;
      }
      begin += n;
    }
  }
  return -1;
}

}  // namespace fabric
