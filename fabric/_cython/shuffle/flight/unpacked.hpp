// How much the buffers of an IPC message come to once they are decompressed.
//
// One job: count it from the message as it came, before Arrow reads it: 32 KB of zstd can be a
// gigabyte. Compressed buffers begin with their size; a flatbuffer (Arrow's Message.fbs) says where
// they lie. Every offset comes from a stranger; what can't be followed is refused.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/fault.hpp"

namespace fabric {

// Tables of a flatbuffer, by place; 0 is nowhere.
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
  PackedMessage(std::string_view metadata, std::string_view body) : flat_(metadata), body_(body) {}

  // At most what fits below `MOST`, which is more than any machine has.
  arrow::Result<int64_t> unpacked_bytes() {
    const int64_t bytes = count();
    if (flat_.ok()) return bytes;
    return fault("DataError", "a message of the stream is damaged: its metadata is no flatbuffer");
  }

 private:
  static constexpr int64_t MOST = int64_t{1} << 60;
  static constexpr uint8_t DICTIONARY = 2, ROWS = 3;  // of MessageHeader
  static constexpr int16_t V5 = 4;                    // of MetadataVersion

  int64_t count() {
    const uint64_t message = flat_.root();
    const uint64_t version = flat_.field(message, 0), type = flat_.field(message, 1);
    const uint8_t kind = type == 0 ? 0 : flat_.load<uint8_t>(type);
    uint64_t batch = flat_.follow(flat_.field(message, 2));
    if (kind == DICTIONARY) batch = flat_.follow(flat_.field(batch, 1));
    if ((kind != ROWS && kind != DICTIONARY) || !flat_.ok()) return 0;
    // Before V5 a codec could be named in the metadata.
    const bool old = version == 0 || flat_.load<int16_t>(version) < V5;
    const bool packed =
        flat_.field(batch, 3) != 0 || (old && flat_.field(message, 4) != 0);
    const auto plain = static_cast<int64_t>(body_.size());
    return packed ? buffers(flat_.follow(flat_.field(batch, 2))) : plain;
  }

  int64_t buffers(uint64_t vector) {
    const uint32_t n = vector == 0 ? 0 : flat_.load<uint32_t>(vector);
    int64_t sum = 0;
    for (uint64_t i = 0; i < n && flat_.ok() && sum < MOST; ++i) {
      const uint64_t place = vector + 4 + 16 * i;
      const auto begin = flat_.load<int64_t>(place), length = flat_.load<int64_t>(place + 8);
      sum += buffer(begin, length);
    }
    return sum;
  }

  // What can't be read here, Arrow refuses before it reads anything.
  int64_t buffer(int64_t begin, int64_t length) const {
    const auto size = static_cast<int64_t>(body_.size());
    int64_t unpacked = 0;
    if (begin < 0 || length < 8 || begin > size || size - begin < length) return 0;
    std::memcpy(&unpacked, body_.data() + begin, sizeof unpacked);
    return unpacked < 0 ? length : std::min(unpacked, MOST);
  }

  FlatReader flat_;
  std::string_view body_;
};

}  // namespace fabric
