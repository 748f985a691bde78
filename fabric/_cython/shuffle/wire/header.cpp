// Headers, credits and ends of edges, to bytes and back.
#include "wire/header.hpp"

#include <utility>

#include "wire/fault.hpp"
#include "wire/proto.hpp"

namespace fabric {
namespace {

bool decode_partition(std::string_view bytes, PartitionRows& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.rows = in.number();
    if (in.field() == 3) out.charge = in.number();
  });
}

bool decode_grant(std::string_view bytes, PartitionCredit& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.bytes = in.number();
  });
}

bool decode_silent(std::string_view bytes, SilentPartition& out) {
  return read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.until = static_cast<int64_t>(in.number());
  });
}

}  // namespace

std::string encode_header(const EdgeHeader& header) {
  ProtoWriter out;
  out.reserve(64 + header.job.size() + 16 * header.partitions.size());
  out.number(1, WIRE_VERSION);
  out.text(2, header.job);
  out.number(3, header.edge);
  out.number(4, header.producer);
  out.number(5, header.attempt);
  out.number(6, header.epoch);
  out.number(7, header.sequence);
  for (const PartitionRows& entry : header.partitions) {
    ProtoWriter inner;
    inner.number(1, entry.partition);
    inner.number(2, entry.rows);
    inner.number(3, entry.charge);
    out.message(8, inner.bytes());
  }
  out.fixed32(9, header.crc32c);
  out.number(10, static_cast<uint32_t>(header.event));
  out.number(11, static_cast<uint64_t>(header.event_value));
  out.number(12, header.total_rows);
  out.number(13, header.total_bytes);
  return out.take();
}

arrow::Result<EdgeHeader> decode_header(std::string_view bytes) {
  EdgeHeader header;
  uint32_t version = 0, event = 0;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: header.job = in.text(); break;
      case 3: header.edge = in.number32(); break;
      case 4: header.producer = in.number32(); break;
      case 5: header.attempt = in.number32(); break;
      case 6: header.epoch = in.number(); break;
      case 7: header.sequence = in.number(); break;
      case 8: in.require(decode_partition(in.bytes(), header.partitions.emplace_back())); break;
      case 9: header.crc32c = in.fixed32(); break;
      case 10: event = in.number32(); break;
      case 11: header.event_value = static_cast<int64_t>(in.number()); break;
      case 12: header.total_rows = in.number(); break;
      case 13: header.total_bytes = in.number(); break;
      default: break;
    }
  });
  if (!whole) return fault("DataError", "a message of an edge has a damaged header");
  if (version != WIRE_VERSION) {
    return fault("DataError", "an edge header has version " + std::to_string(version) +
                                  ", this agent reads " + std::to_string(WIRE_VERSION));
  }
  if (event > static_cast<uint32_t>(Event::END)) {
    return fault("DataError", "an edge header has the unknown event " + std::to_string(event));
  }
  header.event = static_cast<Event>(event);
  return header;
}

std::string encode_credit(const Credit& credit) {
  ProtoWriter out;
  out.number(1, WIRE_VERSION);
  for (const PartitionCredit& grant : credit.grants) {
    ProtoWriter inner;
    inner.number(1, grant.partition);
    inner.number(2, grant.bytes);
    out.message(2, inner.bytes());
  }
  for (const uint32_t partition : credit.closed) {
    ProtoWriter inner;
    inner.number(1, partition);
    out.message(3, inner.bytes());
  }
  for (const SilentPartition& one : credit.silent) {
    ProtoWriter inner;
    inner.number(1, one.partition);
    inner.number(2, static_cast<uint64_t>(one.until));
    out.message(4, inner.bytes());
  }
  return out.take();
}

arrow::Result<Credit> decode_credit(std::string_view bytes) {
  Credit credit;
  uint32_t version = 0;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    PartitionCredit closed;
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: in.require(decode_grant(in.bytes(), credit.grants.emplace_back())); break;
      case 3:
        in.require(decode_grant(in.bytes(), closed));
        credit.closed.push_back(closed.partition);
        break;
      case 4: in.require(decode_silent(in.bytes(), credit.silent.emplace_back())); break;
      default: break;
    }
  });
  if (!whole || version != WIRE_VERSION) {
    return fault("DataError", "a message of credits is damaged or of another version");
  }
  return credit;
}

std::string encode_end(const arrow::Status& status) {
  ProtoWriter out;
  out.number(1, WIRE_VERSION);
  if (!status.ok()) {
    std::string detail = detail_of(status);
    if (detail.empty()) detail = detail_of(fault("PeerLostError", "the exchange broke off"));
    out.message(2, detail);
  }
  return out.take();
}

arrow::Status decode_end(std::string_view bytes) {
  uint32_t version = 0;
  std::string detail;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) version = in.number32();
    if (in.field() == 2) detail = in.bytes();
  });
  if (!whole || version != WIRE_VERSION) {
    return fault("DataError", "the end of an exchange is damaged or of another version");
  }
  return detail.empty() ? arrow::Status::OK() : told(std::move(detail));
}

}  // namespace fabric
