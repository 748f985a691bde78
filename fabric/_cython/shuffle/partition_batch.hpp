// One batch in, one reordered batch and its partition offsets out.
//
// One job: run hash, count, place and take over a batch; where rows say themselves which partition
// they belong to, nothing is hashed. Everything it keeps is read-only, so one object serves many
// threads; working memory and output come from the allocator it is given.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

struct ArrowArray;
struct ArrowSchema;

namespace fabric {

class Allocator;
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

}  // namespace fabric
