// Rows that lie on this agent, for one of its tasks: of a partition of one output, or fetched from
// another agent and put here because memory may not have room for them.
//
// One job: read them as often as the task wants, or keep them in memory while it has them all.
#pragma once
#include "store/owned.hpp"
#include "store/spiller.hpp"
#include "store/stream.hpp"

namespace fabric {

class LocalRows {
 public:
  LocalRows(std::shared_ptr<Output> output, int32_t partition, std::shared_ptr<Spiller> spiller,
            int cpu)
      : output_(std::move(output)), partition_(partition), spiller_(std::move(spiller)),
        cpu_(cpu) {}
  ~LocalRows() { let_go(); }
  LocalRows(const LocalRows&) = delete;
  LocalRows& operator=(const LocalRows&) = delete;

  Totals totals() const { return output_->totals(partition_); }
  bool spilled() const { return output_->n_runs() > 0; }

  // Only what was put here can get more, from one thread, until it is sealed.
  arrow::Status append(std::shared_ptr<arrow::RecordBatch> batch) {
    ARROW_ASSIGN_OR_RAISE(batch, owned(std::move(batch)));
    if (batch->num_rows() == 0) return arrow::Status::OK();
    const int64_t n_bytes = bytes_of_batch(*batch);
    std::vector<int64_t> offsets{0, batch->num_rows()};
    output_->append(std::move(batch), std::move(offsets), n_bytes);
    return spiller_ == nullptr ? arrow::Status::OK() : spiller_->make_room(0);
  }
  arrow::Status seal() { return output_->seal(); }

  std::unique_ptr<MessageStream> batches() const {
    PartitionTicket ticket;
    ticket.partition = static_cast<uint32_t>(partition_);
    std::vector<PartitionStream::Part> parts{{{0, 0}, output_}};
    return std::make_unique<PartitionStream>(output_->schema(), ticket, std::move(parts),
                                             Reader::TASK, cpu_);
  }

  // From now on they stay in memory until `let_go`; false when they can't.
  bool keep() {
    if (spiller_ != nullptr && !kept_) kept_ = spiller_->keep(output_);
    return spiller_ == nullptr || kept_;
  }
  void let_go() {
    if (std::exchange(kept_, false)) spiller_->let_go(output_);
  }

 private:
  const std::shared_ptr<Output> output_;
  const int32_t partition_;
  const std::shared_ptr<Spiller> spiller_;
  const int cpu_;
  bool kept_ = false;
};

}  // namespace fabric
