// The way of a reader over runs on the disk and rows in memory, and a partition of several outputs
// as one stream.
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <optional>
#include <utility>
#include <vector>

#include "store/coalesce.hpp"
#include "store/output.hpp"
#include "store/payload.hpp"
#include "store/size.hpp"
#include "store/spill.hpp"
#include "wire/batches.hpp"
#include "wire/header.hpp"

namespace fabric {
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
