// Batches in memory, their way to the disk, and the way of a reader over both.
#include "store/output.hpp"

#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "store/coalesce.hpp"
#include "store/payload.hpp"
#include "store/size.hpp"
#include "store/spill/codec.hpp"
#include "store/spill/files.hpp"
#include "wire/batches.hpp"
#include "wire/header.hpp"

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

// A message with what its header says of it.
struct Stored {
  std::shared_ptr<arrow::RecordBatch> batch;  // null when the payload is enough
  std::shared_ptr<const arrow::ipc::IpcPayload> payload;
  int64_t n_rows = 0, n_bytes = 0;
  uint32_t crc32c = 0;
};

// Messages that are made once and sent often: checksums, and IPC bytes where the edge compresses.
// Kept in order as the first reader of a partition made them, for those who read it again. Readers
// at the same place wait for the one who makes the next message. When its rows move to the disk it
// is dropped, and its readers go on there.
class Shelf {
 public:
  // `share` counts the bytes of payloads and outlives the shelf.
  Shelf(Coalescer messages, std::shared_ptr<arrow::util::Codec> codec, bool keep_batches, int cpu,
        Share& share)
      : messages_(std::move(messages)), options_(write_options(std::move(codec))),
        keep_batches_(keep_batches || options_.codec == nullptr), cpu_(cpu), share_(share) {}

  // Message `index`; false when there are no more, or they are gone from here.
  arrow::Result<bool> at(size_t index, Stored& out) {
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

  // Forget all; its source has no more rows.
  void drop() {
    std::deque<Stored> gone;
    std::lock_guard lock(mutex_);
    dropped_ = true;
    gone.swap(made_);
    share_.give_back(std::exchange(payload_bytes_, 0));
  }

 private:
  arrow::Result<bool> make_next() {
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

  std::mutex mutex_;
  Coalescer messages_;
  const arrow::ipc::IpcWriteOptions options_;
  const bool keep_batches_;
  const int cpu_;
  Share& share_;
  std::deque<Stored> made_;
  int64_t payload_bytes_ = 0;
  bool dropped_ = false;
  arrow::Status failed_;
};

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

namespace {

// One partition of one sealed output: messages of the runs on the disk, then of the rows in memory,
// and the way over when those move to the disk meanwhile: what was given of them already is skipped
// there.
class PartReader {
 public:
  PartReader(std::shared_ptr<const Output> output, int32_t partition, Reader reader, int cpu)
      : output_(std::move(output)), partition_(partition), reader_(reader), cpu_(cpu) {}

  // The next message; false when all are out.
  arrow::Result<bool> next(Stored& out) {
    while (true) {
      if (at_run_ < output_->n_runs()) {
        leave_memory();
        ARROW_ASSIGN_OR_RAISE(const bool more, next_spilled(out));
        if (more) return true;
        continue;
      }
      ARROW_ASSIGN_OR_RAISE(const bool more, next_in_memory(out));
      if (at_run_ != output_->n_runs()) continue;  // it may be cut short: the rows moved meanwhile
      if (more) rows_given_ += out.n_rows;
      return more;
    }
  }

 private:
  // When some rows were read there, the run that they moved to begins with them.
  void leave_memory() {
    if (!messages_ && shelf_ == nullptr) return;
    messages_.reset();
    shelf_.reset();
    n_shelved_ = 0;
    rows_to_skip_ = std::exchange(rows_given_, 0);
  }

  arrow::Result<bool> next_spilled(Stored& out) {
    if (!spilled_) spilled_.emplace(output_->spilled(static_cast<uint32_t>(partition_)));
    if (!entries_) {
      ARROW_ASSIGN_OR_RAISE(entries_, spilled_->entries(at_run_));
      ARROW_RETURN_NOT_OK(spilled_->announce(*entries_));
      at_entry_ = 0;
    }
    for (; at_entry_ < entries_->size(); ++at_entry_) {
      const SpillEntry& entry = (*entries_)[at_entry_];
      const auto n_rows = static_cast<int64_t>(entry.rows);
      if (rows_to_skip_ >= n_rows) {
        rows_to_skip_ -= n_rows;
        continue;
      }
      ARROW_RETURN_NOT_OK(read(entry, out));
      ++at_entry_;
      return true;
    }
    entries_.reset();
    ++at_run_;
    return false;
  }

  arrow::Status read(const SpillEntry& entry, Stored& out) {
    out = {nullptr, nullptr, static_cast<int64_t>(entry.rows), static_cast<int64_t>(entry.bytes),
           reader_ == Reader::AGENT ? entry.rows_crc32c : 0};
    if (reader_ == Reader::AGENT && !output_->spill_codec().has_dictionaries()) {
      ARROW_ASSIGN_OR_RAISE(const auto bytes, spilled_->read(entry));
      auto payload = SpillCodec::payload(bytes);
      if (!payload.ok()) return spilled_->lost(entry, payload.status().message());
      out.payload = std::make_shared<const arrow::ipc::IpcPayload>(*std::move(payload));
      return arrow::Status::OK();
    }
    ARROW_ASSIGN_OR_RAISE(out.batch, spilled_->rows(entry, output_->spill_codec()));
    if (rows_to_skip_ > 0) {  // tasks read smaller messages from memory
      out.batch = out.batch->Slice(std::exchange(rows_to_skip_, 0));
      out.n_rows = out.batch->num_rows();
    }
    return arrow::Status::OK();
  }

  arrow::Result<bool> next_in_memory(Stored& out) {
    if (!messages_ && shelf_ == nullptr) {
      if (reader_ == Reader::AGENT) shelf_ = output_->shelf(partition_, at_run_);
      if (shelf_ == nullptr) {
        const MessageSizes sizes = reader_ == Reader::TASK ? LOCAL_SIZES : MessageSizes{};
        messages_.emplace(output_->messages(partition_, sizes, at_run_));
      }
    }
    if (shelf_ != nullptr) return shelf_->at(n_shelved_++, out);
    ARROW_ASSIGN_OR_RAISE(out.batch, messages_->next());
    if (out.batch == nullptr) return false;
    out.payload = nullptr;
    out.n_rows = out.batch->num_rows();
    if (reader_ == Reader::TASK) return true;
    out.n_bytes = bytes_of_batch(*out.batch);
    out.crc32c = 0;
    if (reader_ == Reader::AGENT) {
      ARROW_ASSIGN_OR_RAISE(out.crc32c, crc32c_of(*out.batch, cpu_));
    }
    return true;
  }

  const std::shared_ptr<const Output> output_;
  const int32_t partition_;
  const Reader reader_;
  const int cpu_;
  size_t at_run_ = 0;  // the first that was not given wholly; behind the last: in memory
  int64_t rows_given_ = 0;    // of those in memory
  int64_t rows_to_skip_ = 0;  // of the next run
  std::optional<SpillReader> spilled_;
  std::optional<std::vector<SpillEntry>> entries_;
  size_t at_entry_ = 0;
  std::optional<Coalescer> messages_;
  std::shared_ptr<Shelf> shelf_;
  size_t n_shelved_ = 0;
};

// Headers and totals around what outputs give.
class PartitionStream final : public MessageStream {
 public:
  PartitionStream(std::shared_ptr<arrow::Schema> schema, const PartitionTicket& ticket,
                  std::vector<PartitionPart> parts, Reader reader, int cpu)
      : schema_(std::move(schema)), job_(ticket.job), edge_(ticket.edge),
        partition_(static_cast<int32_t>(ticket.partition)), parts_(std::move(parts)),
        reader_(reader), cpu_(cpu) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    while (at_ < parts_.size()) {
      PartitionPart& part = parts_[at_];
      if (!open_) open_.emplace(std::move(part.output), partition_, reader_, cpu_);
      Stored message;
      ARROW_ASSIGN_OR_RAISE(const bool more, open_->next(message));
      if (more) {
        if (reader_ != Reader::TASK) out.header = rows_header(message);
        out.batch = std::move(message.batch);
        out.payload = std::move(message.payload);
        return true;
      }
      if (reader_ != Reader::TASK) ARROW_RETURN_NOT_OK(end(out));
      close();
      if (reader_ != Reader::TASK) return true;
    }
    return false;
  }

 private:
  void close() {
    open_.reset();
    ++at_;
    sequence_ = 0;
    totals_ = {};
  }

  EdgeHeader header(int64_t n_rows) {
    EdgeHeader header;
    header.job = job_;
    header.edge = edge_;
    header.producer = parts_[at_].producer.task;
    header.attempt = parts_[at_].producer.attempt;
    header.sequence = sequence_++;
    header.partitions = {{static_cast<uint32_t>(partition_), static_cast<uint64_t>(n_rows)}};
    return header;
  }

  std::string rows_header(const Stored& message) {
    EdgeHeader rows = header(message.n_rows);
    rows.crc32c = message.crc32c;
    totals_.rows += message.n_rows;
    totals_.bytes += message.n_bytes;
    return encode_header(rows);
  }

  arrow::Status end(Message& out) {
    EdgeHeader end = header(0);
    end.event = Event::END;
    end.total_rows = static_cast<uint64_t>(totals_.rows);
    end.total_bytes = static_cast<uint64_t>(totals_.bytes);
    out.header = encode_header(end);
    out.payload = nullptr;
    ARROW_ASSIGN_OR_RAISE(out.batch, empty_rows(schema_));
    return arrow::Status::OK();
  }

  const std::shared_ptr<arrow::Schema> schema_;
  const std::string job_;
  const uint32_t edge_;
  const int32_t partition_;
  std::vector<PartitionPart> parts_;
  const Reader reader_;
  const int cpu_;
  size_t at_ = 0;  // of parts_
  std::optional<PartReader> open_;  // of that part
  uint64_t sequence_ = 0;
  Totals totals_;
};

}  // namespace

std::unique_ptr<MessageStream> partition_stream(std::shared_ptr<arrow::Schema> schema,
                                                const PartitionTicket& ticket,
                                                std::vector<PartitionPart> parts, Reader reader,
                                                int cpu) {
  return std::make_unique<PartitionStream>(std::move(schema), ticket, std::move(parts), reader,
                                           cpu);
}

}  // namespace fabric
