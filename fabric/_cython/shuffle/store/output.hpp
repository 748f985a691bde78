// What one task attempt wrote on one edge.
//
// One job: hold reordered batches with their offsets in memory or in spill files, and give out one
// partition's slices of them. Written by its task's thread alone; once sealed its rows never change
// and anyone may read them, but they may still move to the disk. Rows come in runs: those on the
// disk in the order in which they were spilled, then those in memory.
//
// A message that is read again (its connection broke) must be the same again, wherever its rows lie
// now: what is in memory when the output is sealed is spilled at once or not at all, by the same
// coalescing that readers of memory do.
#pragma once
#include <map>

#include "store/shelf.hpp"
#include "store/spill/reader.hpp"

namespace fabric {

struct Totals {
  int64_t rows = 0, bytes = 0;  // a broadcast row counts once
};

// What outputs of one store share.
struct OutputOptions {
  std::shared_ptr<Budget> budget;
  std::shared_ptr<SpillPlaces> places;  // null: everything stays in memory
  int cpu = 0;
};

class Output {
 public:
  Output(OutputName name, std::shared_ptr<arrow::Schema> schema, int32_t n_partitions,
         std::shared_ptr<arrow::util::Codec> codec, const OutputOptions& options)
      : name_(std::move(name)), schema_(std::move(schema)), n_partitions_(n_partitions),
        codec_(std::move(codec)), options_(options), spill_codec_(schema_, codec_),
        rows_(static_cast<size_t>(n_partitions)), share_(options.budget) {}

  int32_t n_partitions() const { return n_partitions_; }
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  const SpillCodec& spill_codec() const { return spill_codec_; }
  bool sealed() const { return sealed_.load(); }
  Totals totals() const { return totals_; }
  // Of one partition of a sealed output; bytes as if all rows were of one size.
  Totals totals(int32_t partition) const {
    const int64_t rows = rows_[static_cast<size_t>(partition)];
    const double share = rows == 0 ? 0 : static_cast<double>(rows) / totals_.rows;
    return {rows, static_cast<int64_t>(share * static_cast<double>(totals_.bytes))};
  }
  int64_t held_bytes() const { return share_.held_bytes(); }

  // Nobody asks for these rows any more: what they held of the budget goes back, and is returned.
  int64_t close() {
    closed_.store(true);
    return share_.close();
  }
  bool closed() const { return closed_.load(); }

  // How many runs lie on the disk; the rows in memory come behind them.
  size_t n_runs() const { return n_runs_.load(); }
  // Decoded bytes of rows, in memory and on the disk.
  int64_t memory_bytes() const { return memory_bytes_.load(); }
  int64_t spilled_bytes() const { return spilled_bytes_.load(); }

  // Partition p owns rows offsets[p] to offsets[p + 1]; without offsets, all own all.
  void append(std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets,
              int64_t n_bytes) {
    totals_.rows += batch->num_rows();
    totals_.bytes += n_bytes;
    for (size_t p = 0; p < rows_.size(); ++p) {
      rows_[p] += offsets.empty() ? batch->num_rows() : offsets[p + 1] - offsets[p];
    }
    share_.take(n_bytes);
    std::lock_guard lock(mutex_);
    broadcast_ = broadcast_ && offsets.empty();
    chunks_.push_back(std::make_shared<const Chunk>(std::move(batch), std::move(offsets)));
    memory_bytes_ += n_bytes;
  }

  // From now on nothing is added. Messages of rows that every partition gets are formed here, once.
  arrow::Status seal() {
    std::lock_guard spilling(spilling_);
    if (is_broadcast()) ARROW_RETURN_NOT_OK(join_broadcast());
    if (files_ != nullptr) ARROW_RETURN_NOT_OK(files_->settle());
    sealed_.store(true);
    return arrow::Status::OK();
  }

  // Move what is in memory now to the disk; on an error it stays. Any thread.
  arrow::Status spill() {
    std::lock_guard spilling(spilling_);
    Chunks chunks;
    int64_t n_bytes;
    bool broadcast;
    {
      std::lock_guard lock(mutex_);
      chunks = chunks_;
      n_bytes = memory_bytes_;
      broadcast = broadcast_;
    }
    if (chunks.empty()) return arrow::Status::OK();
    if (files_ == nullptr) {
      files_ = std::make_shared<SpillFiles>(options_.places, name_, n_partitions_, options_.cpu);
    }
    ARROW_RETURN_NOT_OK(files_->add_run(n_bytes, [&](RunWriter& writer) {
      return write_run(chunks, broadcast, writer);
    }));
    if (sealed()) {
      if (const auto settled = files_->settle(); !settled.ok()) {
        files_->forget_last_run();
        return settled;
      }
    }
    forget(std::move(chunks), n_bytes);
    return arrow::Status::OK();
  }

  // For one reader of a sealed output that has spilled.
  SpillReader spilled(uint32_t partition) const {
    return SpillReader(files_, partition, options_.cpu);
  }

  // The rows in memory behind `n_runs` runs as messages; short, and no longer to be used, when they
  // move to the disk meanwhile. This output must outlive them.
  Coalescer messages(int32_t partition, MessageSizes sizes, size_t n_runs) const {
    return Coalescer(
        [this, partition, n_runs, at = size_t{0}](Rows& out) mutable {
          std::shared_ptr<const Chunk> chunk;
          {
            std::lock_guard lock(mutex_);
            if (n_runs_.load() != n_runs || at == chunks_.size()) return false;
            chunk = chunks_[at++];
          }
          out = chunk->rows(partition);
          return true;
        },
        sizes);
  }

  // Where messages of rows in memory are kept for the next reader; null where that does not pay.
  std::shared_ptr<Shelf> shelf(int32_t partition, size_t n_runs) const {
    std::lock_guard lock(mutex_);
    if (n_runs_.load() != n_runs || (codec_ == nullptr && !is_broadcast())) return nullptr;
    std::shared_ptr<Shelf>& found = shelves_[is_broadcast() ? 0 : partition];
    if (found == nullptr) {
      found = std::make_shared<Shelf>(messages(partition, MessageSizes{}, n_runs), codec_,
                                      spill_codec_.has_dictionaries(), options_.cpu, share_);
    }
    return found;
  }

 private:
  struct Chunk {
    std::shared_ptr<arrow::RecordBatch> batch;
    std::vector<int64_t> offsets;

    Chunk(std::shared_ptr<arrow::RecordBatch> rows, std::vector<int64_t> cuts)
        : batch(std::move(rows)), offsets(std::move(cuts)) {}
    Rows rows(int32_t partition) const {
      if (offsets.empty()) return {batch, 0, batch->num_rows()};
      const auto p = static_cast<size_t>(partition);
      return {batch, offsets[p], offsets[p + 1] - offsets[p]};
    }
  };
  using Chunks = std::vector<std::shared_ptr<const Chunk>>;

  bool is_broadcast() const { return broadcast_ && !chunks_.empty(); }

  arrow::Status join_broadcast() {
    Chunks joined;
    Coalescer messages = messages_of(chunks_, 0);
    while (true) {
      ARROW_ASSIGN_OR_RAISE(auto batch, messages.next());
      if (batch == nullptr) break;
      joined.push_back(std::make_shared<const Chunk>(std::move(batch), std::vector<int64_t>()));
    }
    std::lock_guard lock(mutex_);
    chunks_.swap(joined);
    return arrow::Status::OK();
  }

  static Coalescer messages_of(const Chunks& chunks, int32_t partition) {
    return Coalescer(
        [&chunks, partition, at = size_t{0}](Rows& out) mutable {
          if (at == chunks.size()) return false;
          out = chunks[at++]->rows(partition);
          return true;
        },
        MessageSizes{});
  }

  arrow::Result<int> write_run(const Chunks& chunks, bool broadcast, RunWriter& writer) const {
    writer.set_broadcast(broadcast);
    for (int32_t partition = 0; partition < (broadcast ? 1 : n_partitions_); ++partition) {
      writer.next_partition();
      Coalescer messages = messages_of(chunks, partition);
      while (true) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, messages.next());
        if (batch == nullptr) break;
        ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(*batch, options_.cpu));
        Gathered bytes;
        ARROW_RETURN_NOT_OK(spill_codec_.encode(*batch, bytes));
        const int error =
            writer.add(bytes, batch->num_rows(), bytes_of_batch(*batch), crc);
        if (error != 0) return error;
      }
    }
    writer.next_partition();
    return 0;
  }

  // The chunks that lie on the disk now, which are the first in memory.
  void forget(Chunks spilled, int64_t n_bytes) {
    std::map<int32_t, std::shared_ptr<Shelf>> shelves;
    {
      std::lock_guard lock(mutex_);
      const auto begin = chunks_.begin();
      chunks_.erase(begin, begin + static_cast<std::ptrdiff_t>(spilled.size()));
      shelves.swap(shelves_);
      broadcast_ = std::all_of(chunks_.begin(), chunks_.end(),
                               [](const auto& chunk) { return chunk->offsets.empty(); });
      memory_bytes_ -= n_bytes;
      spilled_bytes_ += n_bytes;
      n_runs_.fetch_add(1);
    }
    for (const auto& [_, shelf] : shelves) shelf->drop();
    spilled.clear();
    share_.give_back(n_bytes);
  }

  const OutputName name_;
  const std::shared_ptr<arrow::Schema> schema_;
  const int32_t n_partitions_;
  const std::shared_ptr<arrow::util::Codec> codec_;
  const OutputOptions options_;
  const SpillCodec spill_codec_;
  Totals totals_;
  std::vector<int64_t> rows_;  // by partition
  std::atomic<bool> sealed_{false}, closed_{false};
  std::atomic<size_t> n_runs_{0};
  std::atomic<int64_t> memory_bytes_{0}, spilled_bytes_{0};
  mutable Share share_;  // before the shelves, which count in it
  std::mutex spilling_;  // held while a run is written, and to seal
  std::shared_ptr<SpillFiles> files_;  // changes under `spilling_`, before the first run is counted
  mutable std::mutex mutex_;  // of all below
  Chunks chunks_;
  bool broadcast_ = true;  // no chunk in memory has offsets
  mutable std::map<int32_t, std::shared_ptr<Shelf>> shelves_;
};

}  // namespace fabric
