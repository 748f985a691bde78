// What makes a message of an edge a duplicate, or its partition lost.
#include "wire/check.hpp"

#include <arrow/record_batch.h>

#include <algorithm>
#include <utility>

#include "wire/batches.hpp"

namespace fabric {
namespace {

std::string task_text(uint32_t task, uint32_t attempt) {
  return std::to_string(task) + "#" + std::to_string(attempt);
}

}  // namespace

StreamCheck::StreamCheck(std::string job, uint32_t edge,
                         const std::vector<ProducerAttempt>& producers,
                         std::optional<uint32_t> partition, Where where, bool checksums, int cpu)
    : job_(std::move(job)), edge_(edge), partition_(partition), where_(std::move(where)),
      checksums_(checksums), cpu_(cpu) {
  where_.job = job_;
  for (const ProducerAttempt& producer : producers) {
    producers_[producer.task].attempt = producer.attempt;
  }
}

arrow::Result<EdgeHeader> StreamCheck::decode(std::string_view bytes) const {
  arrow::Result<EdgeHeader> header = decode_header(bytes);
  if (header.ok()) return header;
  const std::string words = header.status().message();  // "DataError: ..."
  return lost(words.substr(words.find(' ') + 1), "?");
}

arrow::Result<bool> StreamCheck::accept(const EdgeHeader& header, const arrow::RecordBatch* batch) {
  const std::string task = task_text(header.producer, header.attempt);
  if (header.job != job_ || header.edge != edge_) {
    return lost("the answer belongs to " + header.job + "/e" + std::to_string(header.edge), task);
  }
  const auto found = producers_.find(header.producer);
  if (found == producers_.end()) return lost("nobody asked for this producer", task);
  Progress& progress = found->second;
  if (header.attempt != progress.attempt) {
    const char* age = header.attempt < progress.attempt ? "an older" : "a newer";
    return lost(std::string(age) + " attempt than " + std::to_string(progress.attempt) +
                    " answered", task);
  }
  if (header.sequence < progress.sequence) {
    ++duplicates_;
    return false;
  }
  if (header.sequence > progress.sequence) {
    return lost(std::to_string(header.sequence - progress.sequence) +
                    " messages are missing before " + std::to_string(header.sequence), task);
  }
  if (progress.ended) return lost("a message came after the end", task);
  ++progress.sequence;
  if (header.event == Event::ROWS) {
    ARROW_RETURN_NOT_OK(check_rows(header, batch, task));
    progress.rows += static_cast<uint64_t>(batch->num_rows());
  } else if (header.event == Event::END) {
    ARROW_RETURN_NOT_OK(check_end(header, progress, task));
  }
  return true;
}

arrow::Status StreamCheck::finish() const {
  std::string open;
  for (const auto& [task, progress] : producers_) {
    if (progress.ended) continue;
    if (!open.empty()) open += ", ";
    open += task_text(task, progress.attempt);
  }
  return open.empty() ? arrow::Status::OK() : lost("the stream ended before its rows did", open);
}

arrow::Status StreamCheck::lost(const std::string& what, const std::string& task) const {
  Where at = where_;
  at.task = task;
  const std::string of =
      partition_ ? "partition " + std::to_string(*partition_) + " of " : std::string();
  return fault("PartitionLostError", of + "edge " + std::to_string(edge_) + " from task " + task +
                                         ": " + what, at);
}

arrow::Status StreamCheck::check_rows(const EdgeHeader& header, const arrow::RecordBatch* batch,
                                      const std::string& task) const {
  const uint64_t n_rows = batch == nullptr ? 0 : static_cast<uint64_t>(batch->num_rows());
  uint64_t rows = 0;
  for (const PartitionRows& entry : header.partitions) {
    rows += std::min(entry.rows, n_rows + 1);  // a sum that wraps around must not look right
    if (partition_ && entry.partition != *partition_) {
      return lost("a message holds rows of another partition", task);
    }
  }
  if (batch == nullptr || rows != n_rows) {
    return lost("a message holds other rows than its header says", task);
  }
  if (!checksums_) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(*batch, cpu_));
  return crc == header.crc32c ? arrow::Status::OK()
                              : lost("a message arrived damaged: its checksum differs", task);
}

arrow::Status StreamCheck::check_end(const EdgeHeader& header, Progress& progress,
                                     const std::string& task) const {
  if (header.total_rows != progress.rows) {
    return lost(std::to_string(progress.rows) + " of " + std::to_string(header.total_rows) +
                    " rows arrived", task);
  }
  progress.ended = true;
  return arrow::Status::OK();
}

}  // namespace fabric
