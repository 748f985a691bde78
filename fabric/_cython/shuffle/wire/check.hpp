// Whether the messages of an edge follow each other rightly.
//
// One job: a pure check on the receiving side. Duplicates within one attempt are dropped and
// counted; gaps, other attempts, wrong totals and damaged rows are a PartitionLostError that names
// agent, producing task and partition.
#pragma once
#include <arrow/type_fwd.h>

#include <map>
#include <optional>

#include "wire/fault.hpp"
#include "wire/header.hpp"

namespace fabric {

class StreamCheck {
 public:
  // Without a `partition`, messages may name any; without `checksums`, for streams that never left
  // the process, the CRC is not looked at.
  StreamCheck(std::string job, uint32_t edge, const std::vector<ProducerAttempt>& producers,
              std::optional<uint32_t> partition, Where where, bool checksums, int cpu);

  // Read a header; a missing or damaged one is a lost partition too.
  arrow::Result<EdgeHeader> decode(std::string_view bytes) const;

  // Check one message; false means: seen before, drop it.
  arrow::Result<bool> accept(const EdgeHeader& header, const arrow::RecordBatch* batch);

  // The stream is over: every producer must have ended.
  arrow::Status finish() const;

  uint64_t duplicates() const { return duplicates_; }

  // A PartitionLostError about a task's rows.
  arrow::Status lost(const std::string& what, const std::string& task) const;

 private:
  struct Progress {
    uint32_t attempt = 0;
    uint64_t sequence = 0, rows = 0;
    bool ended = false;
  };

  arrow::Status check_rows(const EdgeHeader& header, const arrow::RecordBatch* batch,
                           const std::string& task) const;
  arrow::Status check_end(const EdgeHeader& header, Progress& progress,
                          const std::string& task) const;

  std::string job_;
  uint32_t edge_;
  std::optional<uint32_t> partition_;
  Where where_;
  bool checksums_;
  int cpu_;
  std::map<uint32_t, Progress> producers_;
  uint64_t duplicates_ = 0;
};

}  // namespace fabric
