// The header of an edge: what rides in `app_metadata` of every message (wire.proto).
//
// One job: to and from bytes. Whether headers follow each other rightly is checked in `check.hpp`.
#pragma once
#include <arrow/result.h>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fabric {

constexpr uint32_t WIRE_VERSION = 1;

// What a message is: rows, or one of the three events between them.
enum class Event : uint32_t { ROWS = 0, WATERMARK = 1, BARRIER = 2, END = 3 };

struct ProducerAttempt {
  uint32_t task, attempt;
  auto operator<=>(const ProducerAttempt&) const = default;
};

struct PartitionRows {
  uint32_t partition;
  uint64_t rows;
  uint64_t charge = 0;  // of the sender's ledger; only rows of pipelined edges cost credit
  bool operator==(const PartitionRows&) const = default;
};

struct EdgeHeader {
  std::string job;
  uint32_t edge = 0, producer = 0, attempt = 0;
  uint64_t epoch = 0, sequence = 0;
  std::vector<PartitionRows> partitions;  // in batch order
  uint32_t crc32c = 0;                    // of the canonical buffers
  Event event = Event::ROWS;
  int64_t event_value = 0;                    // watermark in microseconds, barrier id
  uint64_t total_rows = 0, total_bytes = 0;  // with END
};

std::string encode_header(const EdgeHeader& header);

// A DataError when the bytes are damaged or of another version.
arrow::Result<EdgeHeader> decode_header(std::string_view bytes);

}  // namespace fabric
