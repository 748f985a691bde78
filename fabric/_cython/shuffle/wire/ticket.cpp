// Tickets, to signed bytes and back.
#include "wire/ticket.hpp"

#include <algorithm>
#include <array>

#include "wire/fault.hpp"
#include "wire/proto.hpp"
#include "wire/sha256.hpp"

namespace fabric {
namespace {

constexpr size_t MAC_BYTES = 32;
constexpr size_t TICKET_BYTES_MAX = 1 << 20;

std::string mac(std::string_view key, std::string_view payload) {
  const std::array<uint8_t, MAC_BYTES> digest = hmac_sha256(key, payload);
  return std::string(digest.begin(), digest.end());
}

std::string encode_partition_ticket(const PartitionTicket& ticket) {
  ProtoWriter out;
  out.text(1, ticket.job);
  out.number(2, ticket.edge);
  out.text(3, ticket.node_path);
  out.number(4, ticket.partition);
  for (const ProducerAttempt& producer : ticket.producers) {
    ProtoWriter inner;
    inner.number(1, producer.task);
    inner.number(2, producer.attempt);
    out.message(5, inner.bytes());
  }
  out.number(6, static_cast<uint32_t>(ticket.tap));
  return out.take();
}

std::string encode_dataset_ticket(const DatasetTicket& ticket) {
  ProtoWriter out;
  out.text(1, ticket.name);
  out.number(2, ticket.version);
  out.number(3, ticket.partition);
  for (const DatasetPart& part : ticket.parts) {
    ProtoWriter inner;
    inner.text(1, part.transaction);
    inner.text(2, part.writer);
    inner.number(3, part.attempt);
    out.message(4, inner.bytes());
  }
  return out.take();
}

bool decode_producer(std::string_view bytes, ProducerAttempt& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.task = in.number32();
    if (in.field() == 2) out.attempt = in.number32();
  });
}

bool decode_partition_ticket(std::string_view bytes, PartitionTicket& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: out.job = in.text(); break;
      case 2: out.edge = in.number32(); break;
      case 3: out.node_path = in.text(); break;
      case 4: out.partition = in.number32(); break;
      case 5: in.require(decode_producer(in.bytes(), out.producers.emplace_back())); break;
      case 6: out.tap = static_cast<TapMode>(std::min(in.number32(), 2u)); break;
      default: break;
    }
  });
}

bool decode_dataset_ticket(std::string_view bytes, DatasetTicket& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: out.name = in.text(); break;
      case 2: out.version = in.number(); break;
      case 3: out.partition = in.number32(); break;
      case 4: in.require(decode_part(in.bytes(), out.parts.emplace_back())); break;
      default: break;
    }
  });
}

}  // namespace

bool decode_part(std::string_view bytes, DatasetPart& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.transaction = in.text();
    if (in.field() == 2) out.writer = in.text();
    if (in.field() == 3) out.attempt = in.number32();
  });
}

bool is_tap(const Ticket& ticket) {
  const auto* partition = std::get_if<PartitionTicket>(&ticket);
  return partition != nullptr && partition->tap != TapMode::NONE;
}

std::string make_ticket(std::string_view key, const Ticket& ticket, double expires_s) {
  ProtoWriter out;
  out.number(1, WIRE_VERSION);
  out.real(2, expires_s);
  if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) {
    out.message(3, encode_partition_ticket(*partition));
  } else {
    out.message(4, encode_dataset_ticket(std::get<DatasetTicket>(ticket)));
  }
  std::string payload = out.take();
  return payload + mac(key, payload);
}

arrow::Result<Ticket> verify_ticket(std::string_view key, std::string_view signed_bytes,
                                    double wall_s) {
  if (signed_bytes.size() > TICKET_BYTES_MAX) {
    return fault("AuthError", "the ticket has " + std::to_string(signed_bytes.size()) +
                                  " bytes, at most " + std::to_string(TICKET_BYTES_MAX) +
                                  " are read");
  }
  const size_t n = signed_bytes.size() < MAC_BYTES ? 0 : signed_bytes.size() - MAC_BYTES;
  const std::string_view payload = signed_bytes.substr(0, n), given = signed_bytes.substr(n);
  const std::string right = mac(key, payload);
  if (given.size() != MAC_BYTES || !equal_in_constant_time(given, right)) {
    return fault("AuthError", "the ticket was not signed by this fabric");
  }
  uint32_t version = 0;
  double expires_s = 0;
  bool named = false;
  Ticket ticket;
  const bool whole = read_fields(payload, [&](ProtoReader& in) {
    named = named || in.field() == 3 || in.field() == 4;
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: expires_s = in.real(); break;
      case 3:
        in.require(decode_partition_ticket(in.bytes(), ticket.emplace<PartitionTicket>()));
        break;
      case 4:
        in.require(decode_dataset_ticket(in.bytes(), ticket.emplace<DatasetTicket>()));
        break;
      default: break;
    }
  });
  const char* again = "; ask get_flight_info for a new one";
  if (!whole) return fault("AuthError", std::string("the ticket is damaged") + again);
  if (version != WIRE_VERSION) {
    return fault("AuthError", "the ticket has version " + std::to_string(version) +
                                  ", this agent reads " + std::to_string(WIRE_VERSION));
  }
  if (!named) return fault("AuthError", std::string("the ticket names nothing") + again);
  if (wall_s > expires_s + SKEW_S) {
    return fault("AuthError", std::string("the ticket has expired") + again);
  }
  return ticket;
}

}  // namespace fabric
