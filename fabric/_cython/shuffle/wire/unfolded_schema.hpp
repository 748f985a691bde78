// What a schema comes to once Arrow has read it.
//
// One job: count its fields and texts from the message as it came. A flatbuffer may refer to one
// field or one text from many places, and who reads it makes each of them anew: a megabyte can
// become more than a machine has. What is counted here is bounded, and so is the counting.
#pragma once
#include "wire/fault.hpp"
#include "wire/flat.hpp"

namespace fabric {

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

}  // namespace fabric
