// How much Arrow will make of a message, read from its flatbuffer.
#include "wire/unpacked.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "wire/fault.hpp"

namespace fabric {
namespace {

// What a schema comes to once Arrow has read it: its fields and texts, counted from the message as
// it came. A flatbuffer may refer to one field or one text from many places, and who reads it makes
// each of them anew: a megabyte can become more than a machine has. What is counted here is
// bounded, and so is the counting.
class UnfoldedSchema {
 public:
  static constexpr int64_t FIELDS_MAX = 1 << 16;       // nested ones too
  static constexpr int64_t TEXT_BYTES_MAX = 16 << 20;  // names, time zones, metadata
  static constexpr int DEPTH_MAX = 128;                // Arrow reads no deeper

  explicit UnfoldedSchema(FlatReader& flat) : flat_(flat) {}

  // A table of Schema.fbs.
  void add_schema(uint64_t schema) {
    add_words(flat_.field(schema, 2));
    add_fields(flat_.field(schema, 1), 1);
  }

  // The vector of KeyValue that a field of a table refers to.
  void add_words(uint64_t place) {
    each(place, [this](uint64_t pair) {
      n_bytes_ += ITSELF_BYTES;
      add_text(flat_.field(pair, 0));
      add_text(flat_.field(pair, 1));
    });
  }

  arrow::Status status() const {
    if (n_fields_ > FIELDS_MAX || deep_) {
      return fault("DataError", "a schema has at most " + std::to_string(FIELDS_MAX) +
                                    " fields, nested ones counted, and " +
                                    std::to_string(DEPTH_MAX) + " levels");
    }
    if (n_bytes_ > TEXT_BYTES_MAX) {
      return fault("DataError", "names and metadata of a message have at most " +
                                    std::to_string(TEXT_BYTES_MAX) + " bytes together");
    }
    return arrow::Status::OK();
  }

 private:
  static constexpr int64_t ITSELF_BYTES = 64;  // what an empty one takes
  static constexpr uint8_t TIMESTAMP = 10;    // of Type

  bool goes_on() const {
    return flat_.ok() && !deep_ && n_fields_ <= FIELDS_MAX && n_bytes_ <= TEXT_BYTES_MAX;
  }

  void add_fields(uint64_t place, int depth) {
    each(place, [this, depth](uint64_t field) {
      ++n_fields_;
      deep_ = deep_ || depth > DEPTH_MAX;
      add_text(flat_.field(field, 0));
      add_words(flat_.field(field, 6));
      const uint64_t type = flat_.field(field, 2);
      if (type != 0 && flat_.load<uint8_t>(type) == TIMESTAMP) {
        add_text(flat_.field(flat_.follow(flat_.field(field, 3)), 1));  // its time zone
      }
      if (goes_on()) add_fields(flat_.field(field, 5), depth + 1);
    });
  }

  void add_text(uint64_t place) {
    if (place == 0) return;
    n_bytes_ += ITSELF_BYTES + flat_.load<uint32_t>(flat_.follow(place));
  }

  template <class Add>
  void each(uint64_t place, Add&& add) {
    if (place == 0) return;
    const uint64_t vector = flat_.follow(place);
    const uint32_t n = flat_.load<uint32_t>(vector);
    for (uint64_t i = 0; i < n && goes_on(); ++i) add(flat_.follow(vector + 4 + 4 * i));
  }

  FlatReader& flat_;
  int64_t n_fields_ = 0, n_bytes_ = 0;
  bool deep_ = false;
};

constexpr int64_t MOST = int64_t{1} << 60;
constexpr int16_t V5 = 4;  // of MetadataVersion

arrow::Status damaged() {
  return fault("DataError", "an Arrow IPC message is damaged: its metadata is no flatbuffer");
}

}  // namespace

PackedMessage::PackedMessage(std::string_view metadata, std::string_view body)
    : flat_(metadata), body_(body), message_(flat_.root()) {
  const uint64_t type = flat_.field(message_, 1);
  const uint8_t kind = type == 0 ? 0 : flat_.load<uint8_t>(type);
  if (kind <= static_cast<uint8_t>(Kind::ROWS)) kind_ = static_cast<Kind>(kind);
  header_ = flat_.follow(flat_.field(message_, 2));
}

int64_t PackedMessage::dictionary() {
  const uint64_t place = flat_.field(header_, 0);
  return place == 0 ? 0 : flat_.load<int64_t>(place);
}

bool PackedMessage::is_delta() {
  const uint64_t place = flat_.field(header_, 2);
  return place != 0 && flat_.load<uint8_t>(place) != 0;
}

arrow::Result<int64_t> PackedMessage::unpacked_bytes() {
  const int64_t bytes = count();
  return flat_.ok() ? arrow::Result<int64_t>(bytes) : damaged();
}

arrow::Status PackedMessage::check_metadata() {
  UnfoldedSchema unfolded(flat_);
  unfolded.add_words(flat_.field(message_, 4));
  if (kind_ == Kind::SCHEMA) unfolded.add_schema(header_);
  ARROW_RETURN_NOT_OK(unfolded.status());
  return flat_.ok() ? arrow::Status::OK() : damaged();
}

int64_t PackedMessage::count() {
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

int64_t PackedMessage::buffers(uint64_t vector) {
  const uint32_t n = vector == 0 ? 0 : flat_.load<uint32_t>(vector);
  int64_t sum = 0;
  for (uint64_t i = 0; i < n && flat_.ok() && sum < MOST; ++i) {
    const uint64_t place = vector + 4 + 16 * i;
    const auto begin = flat_.load<int64_t>(place), length = flat_.load<int64_t>(place + 8);
    sum += buffer(begin, length);
  }
  return sum;
}

int64_t PackedMessage::buffer(int64_t begin, int64_t length) const {
  const auto size = static_cast<int64_t>(body_.size());
  int64_t unpacked = 0;
  if (begin < 0 || length < 8 || begin > size || size - begin < length) return 0;
  std::memcpy(&unpacked, body_.data() + begin, sizeof unpacked);
  return unpacked < 0 ? length : std::min(unpacked, MOST);
}

arrow::Status check_schema_message(std::string_view bytes) {
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
