// Headers of edges, to bytes and back.
#include "wire/header.hpp"

#include "wire/fault.hpp"
#include "wire/proto.hpp"

namespace fabric {
namespace {

bool decode_partition(std::string_view bytes, PartitionRows& out) {
  ProtoReader in(bytes);
  out = {0, 0};
  while (in.next()) {
    if (in.field() == 1) out.partition = in.number32();
    if (in.field() == 2) out.rows = in.number();
    if (in.field() == 3) out.charge = in.number();
  }
  return in.ok();
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
  ProtoReader in(bytes);
  EdgeHeader header;
  uint32_t version = 0, event = 0;
  bool whole = true;
  while (whole && in.next()) {
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: header.job = in.text(); break;
      case 3: header.edge = in.number32(); break;
      case 4: header.producer = in.number32(); break;
      case 5: header.attempt = in.number32(); break;
      case 6: header.epoch = in.number(); break;
      case 7: header.sequence = in.number(); break;
      case 8: {
        PartitionRows entry;
        whole = decode_partition(in.bytes(), entry);
        header.partitions.push_back(entry);
        break;
      }
      case 9: header.crc32c = in.fixed32(); break;
      case 10: event = in.number32(); break;
      case 11: header.event_value = static_cast<int64_t>(in.number()); break;
      case 12: header.total_rows = in.number(); break;
      case 13: header.total_bytes = in.number(); break;
      default: break;
    }
  }
  if (!whole || !in.ok()) return fault("DataError", "a message of an edge has a damaged header");
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

}  // namespace fabric
