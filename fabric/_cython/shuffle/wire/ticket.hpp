// Tickets: what a DoGet asks for, signed and expiring (wire.proto).
//
// One job: to and from signed bytes. A ticket is `payload || HMAC-SHA256(payload)`; the key is the
// fabric's, derived for tickets alone (`fabric/security/tokens.py`).
#pragma once
#include <variant>

#include "wire/header.hpp"

namespace fabric {

constexpr double SKEW_S = 60.0;  // how far two machines' clocks may differ

// How rows of a pipelined edge are read beside its consumer; NONE: sealed ones.
enum class TapMode : uint32_t { NONE = 0, LOSSY = 1, LOSSLESS = 2 };

struct PartitionTicket {
  std::string job;
  uint32_t edge = 0;
  std::string node_path;
  uint32_t partition = 0;
  std::vector<ProducerAttempt> producers;
  TapMode tap = TapMode::NONE;
};

struct DatasetPart {
  std::string transaction, writer;
  uint32_t attempt = 0;
};

struct DatasetTicket {
  std::string name;
  uint64_t version = 0;
  uint32_t partition = 0;
  std::vector<DatasetPart> parts;
};

using Ticket = std::variant<PartitionTicket, DatasetTicket>;

bool is_tap(const Ticket& ticket);

// A DatasetPart out of its message; false when that is damaged.
bool decode_part(std::string_view bytes, DatasetPart& out);

// The signed bytes of `ticket`, good until `expires_s` (wall time).
std::string make_ticket(std::string_view key, const Ticket& ticket, double expires_s);

// What a signed ticket asks for; an AuthError when it is not ours, damaged or expired.
arrow::Result<Ticket> verify_ticket(std::string_view key, std::string_view signed_bytes,
                                    double wall_s);

}  // namespace fabric
