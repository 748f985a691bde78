// Whether the messages of a pipelined edge follow each other rightly (design 4.2).
//
// One job: a pure check on the consumer's agent, as `wire/check.hpp` is for materialised
// partitions. Sequence numbers count per producer; rows and their end per (producer, partition).
#pragma once
#include <set>

#include "exchange/request.hpp"
#include "wire/check.hpp"

namespace fabric {

struct ExpectedProducer {
  uint32_t task, attempt, partition;
};

class ExchangeCheck {
 public:
  ExchangeCheck(const ExchangeRequest& request, const std::vector<ExpectedProducer>& expected,
                Where where, int cpu)
      : job_(request.job), edge_(request.edge), where_(std::move(where)), cpu_(cpu) {
    for (const ExpectedProducer& one : expected) {
      producers_[one.task].attempt = one.attempt;
      open_.insert({one.task, one.partition});
    }
  }

  // Check one message; false means: seen before, drop it.
  arrow::Result<bool> accept(const EdgeHeader& header, const arrow::RecordBatch& batch) {
    const std::string task = std::to_string(header.producer) + "#" + std::to_string(header.attempt);
    const auto found = producers_.find(header.producer);
    if (header.job != job_ || header.edge != edge_ || found == producers_.end()) {
      return lost("a message of " + header.job + "/e" + std::to_string(header.edge) +
                      " came, which nobody asked for", task);
    }
    Progress& progress = found->second;
    if (header.attempt != progress.attempt) {
      return lost("attempt " + std::to_string(progress.attempt) + " was expected", task);
    }
    if (header.sequence < progress.sequence) return false;
    if (header.sequence > progress.sequence) {
      const uint64_t missing = header.sequence - progress.sequence;
      return lost(std::to_string(missing) + " messages are missing before " +
                      std::to_string(header.sequence), task);
    }
    ++progress.sequence;
    const auto n_rows = static_cast<uint64_t>(batch.num_rows());
    uint64_t rows = 0;
    for (const PartitionRows& part : header.partitions) {
      rows += std::min(part.rows, n_rows + 1);  // a sum that wraps around must not look right
      if (!open_.contains({header.producer, part.partition}) && !closed_.contains(part.partition)) {
        const std::string which = "partition " + std::to_string(part.partition);
        return lost(which + " had ended or was not asked for", task);
      }
    }
    if (rows != n_rows) {
      return lost("a message holds other rows than its header says", task);
    }
    if (header.event == Event::END) {
      for (const PartitionRows& part : header.partitions) {
        open_.erase({header.producer, part.partition});
      }
    }
    if (header.event != Event::ROWS) return true;
    ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(batch, cpu_));
    if (crc != header.crc32c) return lost("a message arrived damaged: its checksum differs", task);
    return true;
  }

  // Nothing more is wanted of a partition.
  void close(uint32_t partition) {
    std::erase_if(open_, [&](const auto& key) { return key.second == partition; });
    closed_.insert(partition);
  }

  arrow::Status finish() const {
    if (open_.empty()) return arrow::Status::OK();
    const auto& [task, partition] = *open_.begin();
    return lost("partition " + std::to_string(partition) + " ended before its rows did",
                std::to_string(task) + "#" + std::to_string(producers_.at(task).attempt));
  }

  arrow::Status lost(const std::string& what, const std::string& task) const {
    Where at = where_;
    at.task = task;
    return fault("PartitionLostError",
                 "edge " + std::to_string(edge_) + " from task " + task + ": " + what, at);
  }

 private:
  struct Progress {
    uint32_t attempt = 0;
    uint64_t sequence = 0;
  };
  std::string job_;
  uint32_t edge_;
  Where where_;
  int cpu_;
  std::map<uint32_t, Progress> producers_;
  std::set<std::pair<uint32_t, uint32_t>> open_;  // (producer, partition) that have not ended
  std::set<uint32_t> closed_;
};

}  // namespace fabric
