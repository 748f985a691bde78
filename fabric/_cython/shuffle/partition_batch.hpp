// One batch in, one reordered batch and its partition offsets out.
//
// One job: run hash, count, place and take over a batch; where rows say themselves which partition
// they belong to, nothing is hashed. Rows that others split are checked by the same hash.
// Everything it keeps is read-only, so one object serves many threads; working memory and output
// come from the allocator it is given.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

struct ArrowArray;
struct ArrowSchema;

namespace fabric {

class Allocator;
struct PartitionRows;
struct Type;

class BatchPartitioner {
 public:
  // With `numbered` the one key, int32, is the number of the partition.
  BatchPartitioner(const ArrowSchema& schema, const std::vector<int32_t>& keys,
                   int32_t n_partitions, uint64_t seed, bool numbered = false);
  ~BatchPartitioner();

  // Fill n_partitions + 1 offsets and `out`. False, and no `out`, when all rows fall to one
  // partition: then the batch itself is the answer.
  bool run(ArrowArray& batch, int cpu, Allocator& allocator, int64_t* offsets,
           ArrowArray& out) const;

 private:
  void assign_and_count(const ArrowArray& batch, int cpu, uint16_t* ids, uint32_t* tables) const;
  void take_numbers(const ArrowArray& batch, int64_t row, int64_t n, uint16_t* ids) const;

  std::unique_ptr<const Type> type_;
  std::vector<int32_t> keys_;
  int32_t n_partitions_;
  uint64_t start_;
  bool numbered_;
};

// The first row of `batch` that lies in a run of another partition than its keys say; -1: none.
// `found` is where it belongs. Runs are (partition, rows) and cover the batch.
arrow::Result<int64_t> misplaced_row(const arrow::RecordBatch& batch,
                                     const std::vector<int32_t>& keys, int32_t n_partitions,
                                     const std::vector<PartitionRows>& runs, int cpu,
                                     uint32_t& found);

}  // namespace fabric
