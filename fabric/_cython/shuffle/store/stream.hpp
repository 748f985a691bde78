// One partition of sealed outputs as messages, producer by producer, each closed by an END event.
//
// One job: headers and totals around what outputs give. Holds the outputs: a release meanwhile
// takes nothing from a stream that is being read.
#pragma once
#include "store/part_reader.hpp"
#include "wire/empty.hpp"
#include "wire/ticket.hpp"

namespace fabric {

class PartitionStream final : public MessageStream {
 public:
  struct Part {
    ProducerAttempt producer;
    std::shared_ptr<const Output> output;
  };

  PartitionStream(std::shared_ptr<arrow::Schema> schema, const PartitionTicket& ticket,
                  std::vector<Part> parts, Reader reader, int cpu)
      : schema_(std::move(schema)), job_(ticket.job), edge_(ticket.edge),
        partition_(static_cast<int32_t>(ticket.partition)), parts_(std::move(parts)),
        reader_(reader), cpu_(cpu) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    while (at_ < parts_.size()) {
      Part& part = parts_[at_];
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
  std::vector<Part> parts_;
  const Reader reader_;
  const int cpu_;
  size_t at_ = 0;  // of parts_
  std::optional<PartReader> open_;  // of that part
  uint64_t sequence_ = 0;
  Totals totals_;
};

}  // namespace fabric
