// What one task attempt wrote on one edge.
//
// One job: hold reordered batches with their offsets, and give out one partition's slices of them.
// Written by its task's thread alone; once sealed it never changes and anyone may read it.
#pragma once
#include <map>

#include "store/shelf.hpp"

namespace fabric {

struct Totals {
  int64_t rows = 0, bytes = 0;  // a broadcast row counts once
};

class Output {
 public:
  Output(int32_t n_partitions, std::string compression, std::shared_ptr<Budget> budget, int cpu)
      : n_partitions_(n_partitions), compression_(std::move(compression)), cpu_(cpu),
        share_(std::move(budget)) {}

  int32_t n_partitions() const { return n_partitions_; }
  bool sealed() const { return sealed_; }
  Totals totals() const { return totals_; }
  Share& share() { return share_; }
  const Share& share() const { return share_; }

  // Partition p owns rows offsets[p] to offsets[p + 1]; without offsets, all own all.
  void append(std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets,
              int64_t n_bytes) {
    totals_.rows += batch->num_rows();
    totals_.bytes += n_bytes;
    share_.take(n_bytes);
    broadcast_ = broadcast_ && offsets.empty();
    chunks_.push_back({std::move(batch), std::move(offsets)});
  }

  // Form the messages of rows that every partition gets, once for all.
  arrow::Status join_broadcast() {
    if (!is_broadcast()) return arrow::Status::OK();
    std::vector<Chunk> joined;
    Coalescer messages(source(0), MessageSizes{});
    while (true) {
      ARROW_ASSIGN_OR_RAISE(auto batch, messages.next());
      if (batch == nullptr) break;
      joined.push_back({std::move(batch), {}});
    }
    chunks_ = std::move(joined);
    return arrow::Status::OK();
  }
  void seal() { sealed_ = true; }

  // One partition's rows as messages; this output must outlive them.
  Coalescer messages(int32_t partition, MessageSizes sizes) const {
    return Coalescer(source(partition), sizes);
  }

  // Where messages of a partition are kept for the next reader; null where that does not pay.
  arrow::Result<Shelf*> shelf(int32_t partition) const {
    if (compression_.empty() && !is_broadcast()) return nullptr;
    std::lock_guard lock(mutex_);
    std::unique_ptr<Shelf>& found = shelves_[is_broadcast() ? 0 : partition];
    if (found == nullptr) {
      ARROW_ASSIGN_OR_RAISE(auto codec, codec_named(compression_));
      found = std::make_unique<Shelf>(messages(partition, MessageSizes{}), std::move(codec),
                                      holds_dictionaries(), cpu_, share_);
    }
    return found.get();
  }

 private:
  struct Chunk {
    std::shared_ptr<arrow::RecordBatch> batch;
    std::vector<int64_t> offsets;
  };

  Coalescer::Source source(int32_t partition) const {
    return [this, partition, at = size_t{0}](Rows& out) mutable {
      if (at == chunks_.size()) return false;
      const Chunk& chunk = chunks_[at++];
      const auto p = static_cast<size_t>(partition);
      const bool all = chunk.offsets.empty();
      const int64_t begin = all ? 0 : chunk.offsets[p];
      out = {chunk.batch, begin, (all ? chunk.batch->num_rows() : chunk.offsets[p + 1]) - begin};
      return true;
    };
  }

  bool is_broadcast() const { return broadcast_ && !chunks_.empty(); }

  bool holds_dictionaries() const {
    if (chunks_.empty()) return false;
    return arrow::ipc::DictionaryFieldMapper(*chunks_[0].batch->schema()).num_dicts() > 0;
  }

  const int32_t n_partitions_;
  const std::string compression_;
  const int cpu_;
  std::vector<Chunk> chunks_;
  Totals totals_;
  bool sealed_ = false, broadcast_ = true;  // broadcast_: no chunk has offsets
  mutable Share share_;  // before the shelves, which count in it
  mutable std::mutex mutex_;
  mutable std::map<int32_t, std::unique_ptr<Shelf>> shelves_;
};

}  // namespace fabric
