// Batches in memory, their way to the disk, and the messages that are made of them.
#include "store/output.hpp"

#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "store/coalesce.hpp"
#include "store/payload.hpp"
#include "store/size.hpp"
#include "store/spill.hpp"
#include "wire/batches.hpp"

namespace fabric {

OutputOptions::OutputOptions(std::shared_ptr<Budget> budget,
                             const std::vector<std::string>& folders, int64_t keep_free_bytes,
                             int cpu)
    : budget(std::move(budget)), cpu(cpu) {
  if (folders.empty()) return;
  places = std::make_shared<SpillPlaces>(std::vector<FilePath>(folders.begin(), folders.end()),
                                         keep_free_bytes);
}

void OutputOptions::fail_disk(int error) const { places->disk().fail(DiskStep::WRITE, error); }

Shelf::Shelf(Coalescer messages, std::shared_ptr<arrow::util::Codec> codec, bool keep_batches,
             int cpu, Share& share)
    : messages_(std::move(messages)), options_(write_options(std::move(codec))),
      keep_batches_(keep_batches || options_.codec == nullptr), cpu_(cpu), share_(share) {}

arrow::Result<bool> Shelf::at(size_t index, Stored& out) {
  std::lock_guard lock(mutex_);
  while (index >= made_.size()) {
    ARROW_RETURN_NOT_OK(failed_);
    if (dropped_) return false;
    auto more = make_next();
    if (!more.ok()) return failed_ = more.status();
    if (!*more) return false;
  }
  out = made_[index];
  return true;
}

void Shelf::drop() {
  std::deque<Stored> gone;
  std::lock_guard lock(mutex_);
  dropped_ = true;
  gone.swap(made_);
  share_.give_back(std::exchange(payload_bytes_, 0));
}

arrow::Result<bool> Shelf::make_next() {
  ARROW_ASSIGN_OR_RAISE(auto batch, messages_.next());
  if (batch == nullptr) return false;
  Stored stored;
  stored.n_rows = batch->num_rows();
  stored.n_bytes = bytes_of_batch(*batch);
  ARROW_ASSIGN_OR_RAISE(stored.crc32c, crc32c_of(*batch, cpu_));
  if (options_.codec != nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto payload, payload_of(*batch, options_));
    share_.take(payload.body_length);
    payload_bytes_ += payload.body_length;
    stored.payload = std::make_shared<const arrow::ipc::IpcPayload>(std::move(payload));
  }
  if (keep_batches_) stored.batch = std::move(batch);
  made_.push_back(std::move(stored));
  return true;
}

struct Output::Chunk {
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

Output::Output(OutputName name, std::shared_ptr<arrow::Schema> schema, int32_t n_partitions,
               std::shared_ptr<arrow::util::Codec> codec, const OutputOptions& options)
    : name_(std::move(name)), schema_(std::move(schema)), n_partitions_(n_partitions),
      codec_(std::move(codec)), options_(options),
      spill_codec_(std::make_unique<const SpillCodec>(schema_, codec_)),
      rows_(static_cast<size_t>(n_partitions)), share_(options.budget) {}

Output::~Output() = default;

Totals Output::totals(int32_t partition) const {
  const int64_t rows = rows_[static_cast<size_t>(partition)];
  const double share = rows == 0 ? 0 : static_cast<double>(rows) / totals_.rows;
  return {rows, static_cast<int64_t>(share * static_cast<double>(totals_.bytes))};
}

int64_t Output::close() {
  closed_.store(true);
  return share_.close();
}

void Output::append(std::shared_ptr<arrow::RecordBatch> batch, std::vector<int64_t> offsets,
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

arrow::Status Output::seal() {
  std::lock_guard spilling(spilling_);
  if (is_broadcast()) ARROW_RETURN_NOT_OK(join_broadcast());
  if (files_ != nullptr) ARROW_RETURN_NOT_OK(files_->settle());
  sealed_.store(true);
  return arrow::Status::OK();
}

arrow::Status Output::spill() {
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

SpillReader Output::spilled(uint32_t partition) const {
  return SpillReader(files_, partition, options_.cpu);
}

Coalescer Output::messages(int32_t partition, MessageSizes sizes, size_t n_runs) const {
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

std::shared_ptr<Shelf> Output::shelf(int32_t partition, size_t n_runs) const {
  std::lock_guard lock(mutex_);
  if (n_runs_.load() != n_runs || (codec_ == nullptr && !is_broadcast())) return nullptr;
  std::shared_ptr<Shelf>& found = shelves_[is_broadcast() ? 0 : partition];
  if (found == nullptr) {
    found = std::make_shared<Shelf>(messages(partition, MessageSizes{}, n_runs), codec_,
                                    spill_codec_->has_dictionaries(), options_.cpu, share_);
  }
  return found;
}

arrow::Status Output::join_broadcast() {
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

Coalescer Output::messages_of(const Chunks& chunks, int32_t partition) {
  return Coalescer(
      [&chunks, partition, at = size_t{0}](Rows& out) mutable {
        if (at == chunks.size()) return false;
        out = chunks[at++]->rows(partition);
        return true;
      },
      MessageSizes{});
}

arrow::Result<int> Output::write_run(const Chunks& chunks, bool broadcast,
                                     RunWriter& writer) const {
  writer.set_broadcast(broadcast);
  for (int32_t partition = 0; partition < (broadcast ? 1 : n_partitions_); ++partition) {
    writer.next_partition();
    Coalescer messages = messages_of(chunks, partition);
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, messages.next());
      if (batch == nullptr) break;
      ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(*batch, options_.cpu));
      Gathered bytes;
      ARROW_RETURN_NOT_OK(spill_codec_->encode(*batch, bytes));
      const int error = writer.add(bytes, batch->num_rows(), bytes_of_batch(*batch), crc);
      if (error != 0) return error;
    }
  }
  writer.next_partition();
  return 0;
}

// The chunks that lie on the disk now, which are the first in memory.
void Output::forget(Chunks spilled, int64_t n_bytes) {
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

}  // namespace fabric
