// What the two ends of a pipelined edge tell each other beside rows, as metadata alone: credits
// back, the end forth (wire.proto, `Credit` and `ExchangeEnd`).
//
// One job: to and from bytes.
#pragma once
#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fabric {

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
