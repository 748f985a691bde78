// The bytes of protobuf, for the few messages that the data plane reads and writes itself.
//
// One job: fields out of bytes and into them. What comes in is bounds-checked and unknown fields
// are skipped, so a message of a later version can be read; every length comes from a stranger.
#pragma once
#include <arrow/util/utf8.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fabric {

class ProtoWriter {
 public:
  // proto3 leaves fields at their default out.
  void number(uint32_t field, uint64_t value) {
    if (value == 0) return;
    tag(field, 0);
    varint(value);
  }
  void fixed32(uint32_t field, uint32_t value) {
    if (value == 0) return;
    tag(field, 5);
    raw(value);
  }
  void real(uint32_t field, double value) {
    if (std::bit_cast<uint64_t>(value) == 0) return;
    tag(field, 1);
    raw(value);
  }
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) message(field, value);
  }
  void message(uint32_t field, std::string_view value) {  // also an empty one
    tag(field, 2);
    varint(value.size());
    out_.append(value);
  }
  void reserve(size_t n_bytes) { out_.reserve(n_bytes); }
  std::string take() { return std::move(out_); }
  const std::string& bytes() const { return out_; }

 private:
  void tag(uint32_t field, uint32_t wire_type) { varint(uint64_t{field} << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) out_.push_back(static_cast<char>(value | 128));
    out_.push_back(static_cast<char>(value));
  }
  template <class T>
  void raw(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }

  std::string out_;
};

// `while (reader.next()) switch (reader.field()) …`; then `ok()` says whether the bytes were whole.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}

  bool next() {
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

  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }

  // The value of the field; one of another type than asked for makes the message damaged.
  uint64_t number() { return expect(0) ? number_ : 0; }
  uint32_t number32() {
    const uint64_t value = number();
    return static_cast<uint32_t>(value);
  }
  uint32_t fixed32() { return expect(5) ? static_cast<uint32_t>(number_) : 0; }
  double real() { return expect(1) ? std::bit_cast<double>(number_) : 0; }
  std::string_view bytes() { return expect(2) ? text_ : std::string_view(); }
  std::string_view text() {  // UTF-8, as proto3 demands of strings
    const std::string_view value = bytes();
    arrow::util::InitializeUTF8();
    ok_ = ok_ && arrow::util::ValidateUTF8(value);
    return value;
  }

 private:
  bool expect(uint32_t wire_type) { return ok_ = ok_ && wire_type_ == wire_type; }

  uint64_t varint() {
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
  T raw() {
    T value = 0;
    const std::string_view bytes = piece(sizeof value);
    if (ok_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  std::string_view piece(uint64_t n_bytes) {
    if (!ok_ || n_bytes > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view found = bytes_.substr(0, n_bytes);
    bytes_.remove_prefix(n_bytes);
    return found;
  }

  std::string_view bytes_;
  bool ok_ = true;
  uint32_t field_ = 0, wire_type_ = 0;
  uint64_t number_ = 0;
  std::string_view text_;
};

}  // namespace fabric
