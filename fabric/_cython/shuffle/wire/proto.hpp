// The bytes of protobuf, for the few messages that the data plane reads and writes itself.
//
// One job: fields out of bytes and into them. What comes in is bounds-checked and unknown fields
// are skipped, so a message of a later version can be read; every length comes from a stranger.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace fabric {

class ProtoWriter {
 public:
  // proto3 leaves fields at their default out.
  void number(uint32_t field, uint64_t value);
  void fixed32(uint32_t field, uint32_t value);
  void real(uint32_t field, double value);
  void text(uint32_t field, std::string_view value);
  void message(uint32_t field, std::string_view value);  // also an empty one
  void reserve(size_t n_bytes) { out_.reserve(n_bytes); }
  std::string take() { return std::move(out_); }
  const std::string& bytes() const { return out_; }

 private:
  void tag(uint32_t field, uint32_t wire_type);
  void varint(uint64_t value);

  std::string out_;
};

// `while (reader.next()) switch (reader.field()) …`; then `ok()` says whether the bytes were whole.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}

  bool next();
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  // The message is damaged unless what lies in its field is whole.
  void require(bool whole) { ok_ = ok_ && whole; }

  // The value of the field; one of another type than asked for makes the message damaged.
  uint64_t number();
  uint32_t number32();
  uint32_t fixed32();
  double real();
  std::string_view bytes();
  std::string_view text();  // UTF-8, as proto3 demands of strings

 private:
  bool expect(uint32_t wire_type);
  uint64_t varint();
  template <class T>
  T raw();
  std::string_view piece(uint64_t n_bytes);

  std::string_view bytes_;
  bool ok_ = true;
  uint32_t field_ = 0, wire_type_ = 0;
  uint64_t number_ = 0;
  std::string_view text_;
};

// Give each field to `take`, which asks the reader for it; whether the bytes were whole.
template <class Take>
bool read_fields(std::string_view bytes, Take&& take) {
  ProtoReader in(bytes);
  while (in.next()) take(in);
  return in.ok();
}

}  // namespace fabric
