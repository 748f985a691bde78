// Credits and ends of exchanges, to bytes and back.
#include "wire/credit.hpp"

#include <utility>

#include "wire/fault.hpp"
#include "wire/header.hpp"
#include "wire/proto.hpp"

namespace fabric {
namespace {

bool decode_grant(std::string_view bytes, PartitionCredit& out) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.bytes = in.number();
  }
  return in.ok();
}

bool decode_silent(std::string_view bytes, SilentPartition& out) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.until = static_cast<int64_t>(in.number());
  }
  return in.ok();
}

}  // namespace

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
  ProtoReader in(bytes);
  Credit credit;
  uint32_t version = 0;
  bool whole = true;
  while (whole && in.next()) {
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: whole = decode_grant(in.bytes(), credit.grants.emplace_back()); break;
      case 3: {
        PartitionCredit closed;
        whole = decode_grant(in.bytes(), closed);
        credit.closed.push_back(closed.partition);
        break;
      }
      case 4: whole = decode_silent(in.bytes(), credit.silent.emplace_back()); break;
      default: break;
    }
  }
  if (!whole || !in.ok() || version != WIRE_VERSION) {
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
  ProtoReader in(bytes);
  uint32_t version = 0;
  std::string detail;
  while (in.next()) {
    if (in.field() == 1) version = in.number32();
    if (in.field() == 2) detail = in.bytes();
  }
  if (!in.ok() || version != WIRE_VERSION) {
    return fault("DataError", "the end of an exchange is damaged or of another version");
  }
  return detail.empty() ? arrow::Status::OK() : told(std::move(detail));
}

}  // namespace fabric
