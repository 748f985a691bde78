// A flatbuffer of a stranger, read where it lies.
//
// One job: find the fields of its tables. Nothing was verified before: every offset is checked
// against the bytes, and what leads out of them makes all of it damaged.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

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

}  // namespace fabric
