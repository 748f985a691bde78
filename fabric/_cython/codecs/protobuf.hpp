// Protocol Buffers: messages to columns by tables that were made before, and columns to messages.
//
// One job: the wire format, over bytes that nobody vouches for: proto2, proto3 and editions, packed
// or not, groups, maps, what occurs twice, and what nobody knows. Every read is checked against the
// end of its message. Which column a field goes to is `fabric/io/codecs/protobuf_program.py`'s.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codecs/codec.hpp"
#include "codecs/framed.hpp"

namespace fabric::codecs {

constexpr int PROTOBUF_DEPTH_MAX = 100;   // of unknown groups in each other
constexpr int64_t MESSAGE_INDEXES_MAX = 64;

enum class PbType : uint8_t {  // the numbers of descriptor.proto
  none, double_, float_, int64, uint64, int32, fixed64, fixed32, bool_, string, group, message,
  bytes, uint32, enum_, sfixed32, sfixed64, sint32, sint64,
};

enum class PbShape : uint8_t { plain, map, timestamp, duration, wrapper };

struct PbEnum {
  bool is_closed = false;  // proto2: what has no name is not there
  std::unordered_map<int32_t, std::string> names;
  std::unordered_map<std::string, int32_t> numbers;
};

struct PbField {
  uint32_t number = 0;
  PbType type = PbType::none;
  PbShape shape = PbShape::plain;
  bool is_repeated = false;
  bool has_presence = false;  // absent is null; else absent is the type's zero
  bool is_required = false;
  bool is_packed = false;     // when written
  int32_t column_id = -1;     // depth first; -1: only its oneof is asked about
  int32_t message_id = -1;    // of a message, group, wrapper or map (its entry)
  int32_t enum_id = -1;
  int32_t oneof_id = -1;      // numbers of a message's oneofs, from 0
};

struct PbMessage {
  std::vector<PbField> fields;
  std::vector<int32_t> absent;  // columns that the message does not have
};

struct PbProgram {
  std::vector<PbMessage> messages;  // 0 is the row's
  std::vector<PbEnum> enums;
};

inline bool is_scalar(const PbField& field) {
  return field.type != PbType::message && field.type != PbType::group;
}

// Throws std::invalid_argument where a number names nothing.
inline void check_program(const PbProgram& program, size_t n_columns) {
  const auto n_messages = static_cast<int32_t>(program.messages.size());
  const auto n_enums = static_cast<int32_t>(program.enums.size());
  bool is_right = n_messages > 0;
  for (const PbMessage& message : program.messages) {
    for (int32_t column : message.absent) {
      is_right = is_right && column >= 0 && static_cast<size_t>(column) < n_columns;
    }
    for (const PbField& field : message.fields) {
      const bool is_column = field.column_id >= 0;
      is_right = is_right && field.column_id < static_cast<int32_t>(n_columns);
      if (is_column && !is_scalar(field)) {
        is_right = is_right && field.message_id >= 0 && field.message_id < n_messages;
      }
      if (is_column && field.type == PbType::enum_) {
        is_right = is_right && field.enum_id >= 0 && field.enum_id < n_enums;
      }
    }
  }
  if (!is_right) throw std::invalid_argument("a Protobuf program has an index out of range");
}

class ProtobufDecoder final : public Decoder {
 public:
  // A `lookup` means that rows have a registry's header.
  ProtobufDecoder(const ArrowSchema& schema, Lookup lookup);
  ~ProtobufDecoder() override;

  // Read rows with this header ("" without) by `program`.
  void put(std::string header, PbProgram program);

  struct Table;  // a message, ready to be read

 protected:
  bool decode(const Span& value, std::string& reason) override;

 private:
  struct Tables;

  Framed<Tables> framed_;
  std::vector<Column*> numbered_;
};

class ProtobufEncoder final : public Encoder {
 public:
  // Each value begins with `header`.
  ProtobufEncoder(const ArrowSchema& schema, PbProgram program, std::string header);
  ~ProtobufEncoder() override;

  void encode(const ArrowArray& rows, Values& out) override;

 private:
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace fabric::codecs
