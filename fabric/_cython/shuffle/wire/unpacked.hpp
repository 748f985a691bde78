// What an IPC message comes to once Arrow has read it.
//
// One job: count it from the message as it came: 32 KB of zstd can be a gigabyte. Compressed
// buffers begin with their size; a flatbuffer (Arrow's Message.fbs) says where they lie. What can't
// be followed is refused.
#pragma once
#include "wire/fault.hpp"
#include "wire/unfolded_schema.hpp"

namespace fabric {

class PackedMessage {
 public:
  enum class Kind : uint8_t { OTHER = 0, SCHEMA = 1, DICTIONARY = 2, ROWS = 3 };  // MessageHeader

  PackedMessage(std::string_view metadata, std::string_view body)
      : flat_(metadata), body_(body), message_(flat_.root()) {
    const uint64_t type = flat_.field(message_, 1);
    const uint8_t kind = type == 0 ? 0 : flat_.load<uint8_t>(type);
    if (kind <= static_cast<uint8_t>(Kind::ROWS)) kind_ = static_cast<Kind>(kind);
    header_ = flat_.follow(flat_.field(message_, 2));
  }

  Kind kind() const { return kind_; }

  // Which dictionary it brings, and whether its values follow those that are there.
  int64_t dictionary() {
    const uint64_t place = flat_.field(header_, 0);
    return place == 0 ? 0 : flat_.load<int64_t>(place);
  }
  bool is_delta() {
    const uint64_t place = flat_.field(header_, 2);
    return place != 0 && flat_.load<uint8_t>(place) != 0;
  }

  // Of its buffers; at most what fits below `MOST`, which is more than any machine has.
  arrow::Result<int64_t> unpacked_bytes() {
    const int64_t bytes = count();
    return flat_.ok() ? arrow::Result<int64_t>(bytes) : damaged();
  }

  // Whether the texts and fields of its metadata are no more than anybody needs.
  arrow::Status check_metadata() {
    UnfoldedSchema unfolded(flat_);
    unfolded.add_words(flat_.field(message_, 4));
    if (kind_ == Kind::SCHEMA) unfolded.add_schema(header_);
    ARROW_RETURN_NOT_OK(unfolded.status());
    return flat_.ok() ? arrow::Status::OK() : damaged();
  }

 private:
  static constexpr int64_t MOST = int64_t{1} << 60;
  static constexpr int16_t V5 = 4;  // of MetadataVersion

  static arrow::Status damaged() {
    return fault("DataError", "an Arrow IPC message is damaged: its metadata is no flatbuffer");
  }

  int64_t count() {
    if (kind_ != Kind::ROWS && kind_ != Kind::DICTIONARY) return 0;
    const uint64_t batch =
        kind_ == Kind::ROWS ? header_ : flat_.follow(flat_.field(header_, 1));
    // Before V5 a codec could be named in the metadata.
    const uint64_t version = flat_.field(message_, 0);
    const bool old = version == 0 || flat_.load<int16_t>(version) < V5;
    const bool packed = flat_.field(batch, 3) != 0 || (old && flat_.field(message_, 4) != 0);
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
  const uint64_t message_;
  uint64_t header_ = 0;
  Kind kind_ = Kind::OTHER;
};

// Of an encapsulated message, as schemas lie in plans and datasets.
inline arrow::Status check_schema_message(std::string_view bytes) {
  FlatReader prefix(bytes);
  const bool marked = prefix.load<uint32_t>(0) == UINT32_MAX;  // since format 0.15
  const size_t begin = marked ? 8 : 4;
  const uint64_t size = prefix.load<uint32_t>(begin - 4);
  if (!prefix.ok() || bytes.size() < begin || bytes.size() - begin < size) {
    return fault("DataError",
                 "the schema can't be read as an Arrow IPC schema message: it is cut short");
  }
  return PackedMessage(bytes.substr(begin, size), {}).check_metadata();
}

}  // namespace fabric
