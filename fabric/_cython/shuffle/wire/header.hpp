// What rides in `app_metadata` on an edge (wire.proto): the header of every message, and of a
// pipelined edge what its two ends tell each other beside rows, credits back and the end forth.
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
  uint32_t task = 0, attempt = 0;
  auto operator<=>(const ProducerAttempt&) const = default;
};

struct PartitionRows {
  uint32_t partition = 0;
  uint64_t rows = 0;
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

struct PartitionCredit {
  uint32_t partition = 0;
  uint64_t bytes = 0;
};

struct SilentPartition {
  uint32_t partition = 0;
  int64_t until = 0;  // a watermark in microseconds; INT64_MIN: any row may matter at once
};

struct Credit {
  std::vector<PartitionCredit> grants;  // so many bytes more may come
  std::vector<uint32_t> closed;         // nothing more is wanted of these
  std::vector<SilentPartition> silent;  // nothing matters of these before such a watermark
  bool empty() const { return grants.empty() && closed.empty() && silent.empty(); }
};

std::string encode_credit(const Credit& credit);
arrow::Result<Credit> decode_credit(std::string_view bytes);

// How an exchange ended, at its producers' agent.
std::string encode_end(const arrow::Status& status);

// Fine, or the error that the other side told.
arrow::Status decode_end(std::string_view bytes);

}  // namespace fabric
