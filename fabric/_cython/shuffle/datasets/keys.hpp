// The keys of a dataset bound to its schema.
//
// One job: which columns they are, and which partition the hash of them gives to each row of a
// batch. Batches go through Arrow's C interface to the kernels.
#pragma once
#include <arrow/record_batch.h>

#include "flight/text.hpp"
#include "hash_column.hpp"
#include "partition.hpp"
#include "wire/exported.hpp"
#include "wire/fault.hpp"

namespace fabric {

// Positions of the key columns; refuses unknown and ambiguous ones.
inline arrow::Result<std::vector<int32_t>> key_indices(const arrow::Schema& schema,
                                                       const std::vector<std::string>& keys) {
  std::vector<int32_t> indices;
  for (const std::string& key : keys) {
    const std::vector<int> found = schema.GetAllFieldIndices(key);
    if (found.size() != 1) {
      return fault("ConfigError", "key column " + quoted(key) +
                                      (found.empty() ? " is not there" : " is there twice"));
    }
    indices.push_back(found[0]);
  }
  return indices;
}

// The first row of `batch` that lies in a run of another partition than its keys say; -1: none.
// `found` is where it belongs. Runs are (partition, rows) and cover the batch.
template <class Runs>
arrow::Result<int64_t> misplaced_row(const arrow::RecordBatch& batch,
                                     const std::vector<int32_t>& keys, int32_t n_partitions,
                                     const Runs& runs, int cpu, uint32_t& found) {
  Exported exported;
  ARROW_RETURN_NOT_OK(exported.fill(batch));
  const Type type = parse_type(exported.schema);
  std::vector<Column> columns;
  columns.reserve(keys.size());
  for (const int32_t key : keys) {
    const auto index = static_cast<size_t>(key);
    columns.emplace_back(type.children[index], *exported.array.children[key], cpu);
  }
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
