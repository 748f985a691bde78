// Protobuf's varints and fields, to bytes and back.
#include "wire/proto.hpp"

#include <arrow/util/utf8.h>

#include <bit>
#include <cstring>

namespace fabric {
namespace {

template <class T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace

void ProtoWriter::number(uint32_t field, uint64_t value) {
  if (value == 0) return;
  tag(field, 0);
  varint(value);
}

void ProtoWriter::fixed32(uint32_t field, uint32_t value) {
  if (value == 0) return;
  tag(field, 5);
  append_raw(out_, value);
}

void ProtoWriter::real(uint32_t field, double value) {
  if (std::bit_cast<uint64_t>(value) == 0) return;
  tag(field, 1);
  append_raw(out_, value);
}

void ProtoWriter::text(uint32_t field, std::string_view value) {
  if (!value.empty()) message(field, value);
}

void ProtoWriter::message(uint32_t field, std::string_view value) {
  tag(field, 2);
  varint(value.size());
  out_.append(value);
}

void ProtoWriter::tag(uint32_t field, uint32_t wire_type) {
  varint(uint64_t{field} << 3 | wire_type);
}

void ProtoWriter::varint(uint64_t value) {
  for (; value > 127; value >>= 7) out_.push_back(static_cast<char>(value | 128));
  out_.push_back(static_cast<char>(value));
}

bool ProtoReader::next() {
  if (!ok_ || bytes_.empty()) return false;
  const uint64_t tag = varint();
  field_ = static_cast<uint32_t>(tag >> 3);
  if (tag >> 3 == 0 || tag >> 32 != 0) return ok_ = false;
  switch (tag & 7) {
    case 0: number_ = varint(); break;
    case 1: number_ = raw<uint64_t>(); break;
    case 2: text_ = piece(varint()); break;
    case 5: number_ = raw<uint32_t>(); break;
    default: ok_ = false;
  }
  wire_type_ = static_cast<uint32_t>(tag & 7);
  return ok_;
}

uint64_t ProtoReader::number() { return expect(0) ? number_ : 0; }

uint32_t ProtoReader::number32() {
  const uint64_t value = number();
  return static_cast<uint32_t>(value);
}

uint32_t ProtoReader::fixed32() { return expect(5) ? static_cast<uint32_t>(number_) : 0; }

double ProtoReader::real() { return expect(1) ? std::bit_cast<double>(number_) : 0; }

std::string_view ProtoReader::bytes() { return expect(2) ? text_ : std::string_view(); }

std::string_view ProtoReader::text() {
  const std::string_view value = bytes();
  arrow::util::InitializeUTF8();
  ok_ = ok_ && arrow::util::ValidateUTF8(value);
  return value;
}

bool ProtoReader::expect(uint32_t wire_type) { return ok_ = ok_ && wire_type_ == wire_type; }

uint64_t ProtoReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  ok_ = false;
  return 0;
}

template <class T>
T ProtoReader::raw() {
  T value = 0;
  const std::string_view bytes = piece(sizeof value);
  if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view ProtoReader::piece(uint64_t n_bytes) {
  if (!ok_ || n_bytes > bytes_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view found = bytes_.substr(0, n_bytes);
  bytes_.remove_prefix(n_bytes);
  return found;
}

}  // namespace fabric
