// What an IPC message comes to once Arrow has read it.
//
// One job: count it from the message as it came: 32 KB of zstd can be a gigabyte. Compressed
// buffers begin with their size; a flatbuffer (Arrow's Message.fbs) says where they lie. What can't
// be followed is refused.
#pragma once
#include <arrow/result.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace fabric {

// Tables of a stranger's flatbuffer, read where they lie, by place; 0 is nowhere. Nothing was
// verified before: every offset is checked against the bytes, and what leads out of them makes all
// of it damaged.
class FlatReader {
 public:
  explicit FlatReader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  uint64_t root() { return load<uint32_t>(0); }

  // Where a field of a table lies, by its number in the schema.
  uint64_t field(uint64_t table, uint64_t number) {
    const auto back = static_cast<int64_t>(load<int32_t>(table));
    const auto vtable = static_cast<uint64_t>(static_cast<int64_t>(table) - back);
    const uint64_t slot = 4 + 2 * number;
    if (slot + 2 > load<uint16_t>(vtable)) return 0;
    const uint16_t offset = load<uint16_t>(vtable + slot);
    return offset == 0 ? 0 : table + offset;
  }
  // What the reference at `place` leads to.
  uint64_t follow(uint64_t place) { return place == 0 ? 0 : place + load<uint32_t>(place); }

  template <class T>
  T load(uint64_t place) {
    T value{};
    ok_ = ok_ && place <= bytes_.size() && bytes_.size() - place >= sizeof value;
    if (ok_) std::memcpy(&value, bytes_.data() + place, sizeof value);
    return value;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

class PackedMessage {
 public:
  enum class Kind : uint8_t { OTHER = 0, SCHEMA = 1, DICTIONARY = 2, ROWS = 3 };  // MessageHeader

  PackedMessage(std::string_view metadata, std::string_view body);

  Kind kind() const { return kind_; }

  // Which dictionary it brings, and whether its values follow those that are there.
  int64_t dictionary();
  bool is_delta();

  // Of its buffers; at most what fits below 2**60, which is more than any machine has.
  arrow::Result<int64_t> unpacked_bytes();

  // Whether the texts and fields of its metadata are no more than anybody needs.
  arrow::Status check_metadata();

 private:
  int64_t count();
  int64_t buffers(uint64_t vector);
  int64_t buffer(int64_t begin, int64_t length) const;

  FlatReader flat_;
  std::string_view body_;
  const uint64_t message_;
  uint64_t header_ = 0;
  Kind kind_ = Kind::OTHER;
};

// Of an encapsulated message, as schemas lie in plans and datasets.
arrow::Status check_schema_message(std::string_view bytes);

}  // namespace fabric
