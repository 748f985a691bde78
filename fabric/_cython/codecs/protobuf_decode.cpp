#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "codecs/integers.hpp"
#include "codecs/protobuf.hpp"
#include "codecs/protobuf_wire.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {

namespace {

constexpr uint32_t DIRECT = 128;  // field numbers below are found by one look

}  // namespace

// One message of a program. A type that holds itself has no columns, so each is in use once at a
// time, and what it met can be its own.
struct ProtobufDecoder::Table {
  // What a message said of a field so far.
  struct Slot {
    bool is_there = false;
    uint64_t raw = 0;
    Span last{};
    std::vector<Span> parts;  // of a message: all that it occurs as are one; a map's entries

    void clear() { is_there = false, parts.clear(); }
  };

  struct Field {
    PbField is;
    Column* column = nullptr;  // of a repeated field its items'
    Column* whole = nullptr;   // of a repeated field the list; else the column
    Table* message = nullptr;
    const PbEnum* names = nullptr;
    uint32_t wire = 0;
    Slot slot;
  };

  std::vector<Field> fields;
  std::vector<Column*> absent;
  std::vector<int16_t> direct;
  std::unordered_map<uint32_t, int16_t> others;

  Field* find(uint32_t number) {
    int16_t index = -1;
    if (number < DIRECT) index = direct[number];
    else if (const auto found = others.find(number); found != others.end()) index = found->second;
    return index < 0 ? nullptr : &fields[static_cast<size_t>(index)];
  }

  // Append the message whose bytes lie in `parts`, one after the other, to the columns.
  bool read(const Span* parts, size_t n, std::string& reason) {
    for (Field& field : fields) field.slot.clear();
    for (size_t k = 0; k < n; ++k) {
      if (!gather(Wires{parts[k].data, parts[k].data + parts[k].size}, reason)) return false;
    }
    for (Field& field : fields) {
      if (field.column != nullptr && !finish(field, reason)) return false;
    }
    for (Column* column : absent) column->null();
    return true;
  }

  bool gather(Wires wires, std::string& reason) {
    const uint8_t* const begin = wires.at;
    while (wires.at < wires.end) {
      const uint8_t* const before = wires.at;
      uint32_t number = 0, wire = 0;
      Span inside{};
      bool is_right = wires.tag(number, wire);
      Field* field = is_right ? find(number) : nullptr;
      if (is_right && field == nullptr) {
        is_right = wires.skip(number, wire, inside);
      } else if (is_right) {
        is_right = meet(*field, wire, wires, reason);
      }
      if (is_right) continue;
      if (reason.empty()) {
        reason = "a field is truncated or corrupt at byte " + std::to_string(before - begin) +
                 " of a message of " + std::to_string(wires.end - begin);
      }
      return false;
    }
    return true;
  }

  // Take in one occurrence of a field.
  bool meet(Field& field, uint32_t wire, Wires& wires, std::string& reason) {
    Span inside{};
    uint64_t raw = 0;
    const PbField& is = field.is;
    if (is.is_repeated && wire == SIZED && field.wire != SIZED && field.wire != BEGIN) {
      if (!wires.sized(inside)) return false;
      Wires packed{inside.data, inside.data + inside.size};
      while (packed.at < packed.end) {
        if (!packed.scalar(field.wire, raw)) return false;
        if (field.column != nullptr && !add(field, raw, inside, reason)) return false;
      }
      return true;
    }
    if (wire != field.wire) return wires.skip(is.number, wire, inside);  // as one unknown
    if (wire == SIZED || wire == BEGIN) {
      if (!wires.skip(is.number, wire, inside)) return false;
    } else if (!wires.scalar(wire, raw)) {
      return false;
    }
    if (is.is_repeated && is.shape != PbShape::map) {
      if (field.column == nullptr) return true;
      if (is_scalar(is)) return add(field, raw, inside, reason);
      return add_message(field, &inside, 1, reason);
    }
    if (is.type == PbType::enum_ && field.names != nullptr && field.names->is_closed &&
        field.names->names.count(static_cast<int32_t>(raw)) == 0) {
      return true;  // as one unknown
    }
    if (is.oneof_id >= 0 && !field.slot.is_there) {
      for (Field& other : fields) {
        if (other.is.oneof_id == is.oneof_id) other.slot.clear();
      }
    }
    field.slot.is_there = true;
    field.slot.raw = raw;
    field.slot.last = inside;
    if (!is_scalar(is) && field.column != nullptr) field.slot.parts.push_back(inside);
    return true;
  }

  // All occurrences are known: append the field's value.
  bool finish(Field& field, std::string& reason) {
    const PbField& is = field.is;
    Slot& slot = field.slot;
    if (is.shape == PbShape::map) return finish_map(field, reason);
    if (is.is_repeated) {
      field.whole->end_list();
      return true;
    }
    if (!slot.is_there) {
      if (is.is_required) {
        reason = "required field " + std::to_string(is.number) + " is missing";
        return false;
      }
      if (is.has_presence) {
        field.column->null();
        return true;
      }
      slot.raw = 0;
      static const uint8_t nothing = 0;
      slot.last = Span{&nothing, 0};
    }
    if (is_scalar(is)) return add(field, slot.raw, slot.last, reason);
    // Its own table clears no slot of this one, but `parts` must outlive the call.
    return add_message(field, slot.parts.data(), slot.parts.size(), reason);
  }

  bool finish_map(Field& field, std::string& reason) {
    std::vector<Span>& parts = field.slot.parts;
    if (parts.size() > 1) keep_last(*field.message, parts);
    Column& entries = field.whole->children()[0];
    for (const Span& part : parts) {
      if (!field.message->read(&part, 1, reason)) return false;
      entries.end_struct();
    }
    field.whole->end_list();
    return true;
  }

  // Of entries with the same key the last one is the map's. What is damaged is found when read.
  static void keep_last(Table& entry, std::vector<Span>& parts) {
    std::unordered_set<std::string> seen;
    size_t to = parts.size();
    for (size_t from = parts.size(); from-- > 0;) {
      if (seen.insert(key_of(entry, parts[from])).second) parts[--to] = parts[from];
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<int64_t>(to));
  }

  static std::string key_of(Table& entry, const Span& part) {
    Wires wires{part.data, part.data + part.size};
    std::string key;
    uint32_t number = 0, wire = 0;
    const Field* field = entry.find(1);
    while (wires.at < wires.end && wires.tag(number, wire)) {
      Span inside{};
      uint64_t raw = 0;
      if (number != 1 || field == nullptr || wire != field->wire) {
        if (!wires.skip(number, wire, inside)) break;
      } else if (wire == SIZED) {
        if (!wires.sized(inside)) break;
        key.assign(reinterpret_cast<const char*>(inside.data), static_cast<size_t>(inside.size));
      } else {
        if (!wires.scalar(wire, raw)) break;
        if (field->is.type == PbType::bool_) raw = raw != 0;
        const bool is_short = field->is.type == PbType::int32 || field->is.type == PbType::uint32 ||
                              field->is.type == PbType::sint32;
        if (is_short) raw = static_cast<uint32_t>(raw);
        key = raw == 0 ? "" : std::string(reinterpret_cast<const char*>(&raw), sizeof raw);
      }
    }
    return key;
  }

  bool add_message(Field& field, const Span* parts, size_t n, std::string& reason) {
    if (field.is.shape == PbShape::timestamp || field.is.shape == PbShape::duration) {
      return add_moment(field, parts, n, reason);
    }
    if (!field.message->read(parts, n, reason)) return false;
    if (field.is.shape != PbShape::wrapper) field.column->end_struct();
    return true;
  }

  // Seconds and nanoseconds, in the column's unit.
  bool add_moment(Field& field, const Span* parts, size_t n, std::string& reason) {
    int64_t seconds = 0;
    int32_t nanos = 0;
    for (size_t k = 0; k < n; ++k) {
      if (Wires{parts[k].data, parts[k].data + parts[k].size}.moment(seconds, nanos)) continue;
      reason = "a time is truncated or corrupt";
      return false;
    }
    const bool is_mixed = (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0);
    const bool is_time = field.is.shape == PbShape::timestamp;
    if (nanos <= -1'000'000'000 || nanos >= 1'000'000'000 || (is_time ? nanos < 0 : is_mixed)) {
      reason = "a time's nanoseconds are out of range";
      return false;
    }
    const int64_t per_second = field.column->type().per_second;
    const int64_t unit = 1'000'000'000 / per_second;
    if (nanos % unit != 0) {
      reason = "a time is more precise than its column";
      return false;
    }
    // A second later and back, so that the least moment does not overflow on its way.
    if (seconds < 0 && nanos > 0) {
      seconds += 1;
      nanos -= 1'000'000'000;
    }
    int64_t value = 0;
    if (__builtin_mul_overflow(seconds, per_second, &value) ||
        __builtin_add_overflow(value, nanos / unit, &value)) {
      reason = "a time is out of its column's range";
      return false;
    }
    field.column->number(value);
    return true;
  }

  bool add(Field& field, uint64_t raw, const Span& text, std::string& reason) {
    Column& column = *field.column;
    const Kind kind = column.type().kind;
    switch (field.is.type) {
      case PbType::string: case PbType::bytes:
        if (kind == Kind::text && !is_utf8(text.data, text.size)) {
          reason = "a string is not UTF-8";
          return false;
        }
        column.bytes(text.data, text.size);
        return true;
      case PbType::bool_:
        column.boolean(raw != 0);
        return true;
      case PbType::double_: {
        double number;
        std::memcpy(&number, &raw, sizeof number);
        column.number(number);
        return true;
      }
      case PbType::float_: {
        float number;
        std::memcpy(&number, &raw, sizeof number);
        if (kind == Kind::float64) column.number(static_cast<double>(number));
        else column.number(number);
        return true;
      }
      case PbType::enum_:
        return add_symbol(field, static_cast<int32_t>(raw));
      case PbType::uint64: case PbType::fixed64:
        if (kind == Kind::uint64) {
          column.number(raw);
          return true;
        }
        break;
      case PbType::int32: case PbType::sfixed32:
        raw = static_cast<uint64_t>(int64_t{static_cast<int32_t>(raw)});
        break;
      case PbType::uint32: case PbType::fixed32:
        raw = static_cast<uint32_t>(raw);
        break;
      case PbType::sint32:
        raw = static_cast<uint64_t>(unzigzag(static_cast<uint32_t>(raw)));
        break;
      case PbType::sint64:
        raw = static_cast<uint64_t>(unzigzag(raw));
        break;
      default:
        break;
    }
    const bool is_unsigned = field.is.type == PbType::uint64 || field.is.type == PbType::fixed64;
    if ((is_unsigned && raw > INT64_MAX) ||
        !append_integer(column, kind, static_cast<int64_t>(raw))) {
      reason = "field " + std::to_string(field.is.number) + " is out of its column's range";
      return false;
    }
    return true;
  }

  static bool add_symbol(Field& field, int32_t number) {
    const auto found = field.names->names.find(number);
    if (found == field.names->names.end() && field.names->is_closed && field.is.is_repeated) {
      return true;  // as one unknown
    }
    if (field.column->type().kind != Kind::text) field.column->number(number);
    else if (found != field.names->names.end()) field.column->bytes(found->second);
    else field.column->bytes(std::to_string(number));  // as Protobuf's JSON has it
    return true;
  }
};

struct ProtobufDecoder::Tables {
  PbProgram program;
  std::vector<Table> tables;
};

ProtobufDecoder::ProtobufDecoder(const ArrowSchema& schema, Lookup lookup)
    : Decoder(schema), framed_(std::move(lookup)) {
  number_columns(columns(), numbered_);
}

ProtobufDecoder::~ProtobufDecoder() = default;

void ProtobufDecoder::put(std::string header, PbProgram program) {
  check_program(program, numbered_.size());
  auto made = std::make_unique<Tables>();
  made->program = std::move(program);
  made->tables.resize(made->program.messages.size());
  for (size_t m = 0; m < made->tables.size(); ++m) {
    Table& table = made->tables[m];
    const PbMessage& message = made->program.messages[m];
    table.direct.assign(DIRECT, -1);
    for (int32_t column : message.absent) {
      table.absent.push_back(numbered_[static_cast<size_t>(column)]);
    }
    for (const PbField& field : message.fields) {
      Table::Field ready;
      ready.is = field;
      ready.wire = wire_of(field.type);
      if (field.column_id >= 0) {
        ready.whole = ready.column = numbered_[static_cast<size_t>(field.column_id)];
        if (field.is_repeated && field.shape != PbShape::map) {
          ready.column = &ready.whole->children().at(0);
        }
        if (field.message_id >= 0) {
          ready.message = &made->tables[static_cast<size_t>(field.message_id)];
        }
      }
      if (field.enum_id >= 0) {
        ready.names = &made->program.enums[static_cast<size_t>(field.enum_id)];
      }
      const auto index = static_cast<int16_t>(table.fields.size());
      if (field.number < DIRECT) table.direct[field.number] = index;
      else table.others[field.number] = index;
      table.fields.push_back(std::move(ready));
    }
  }
  framed_.put(std::move(header), std::move(made));
}

bool ProtobufDecoder::decode(const Span& value, std::string& reason) {
  Span rest = value;
  int64_t n_header = 0;
  if (framed_.has_header()) {
    if (!framed_.has_id(value, reason)) return false;
    // How many indexes follow, and they: 0 alone is the first message.
    Wires wires{value.data + ID_BYTES, value.data + value.size};
    uint64_t raw = 0;
    bool is_right = wires.varint(raw) && unzigzag(raw) >= 0 &&
                    unzigzag(raw) <= MESSAGE_INDEXES_MAX;
    for (int64_t n = is_right ? unzigzag(raw) : 0; n > 0 && is_right; --n) {
      is_right = wires.varint(raw);
    }
    if (!is_right) {
      reason = "the message indexes after the schema id are corrupt";
      return false;
    }
    n_header = wires.at - value.data;
  }
  Tables* tables = framed_.find(rest, n_header, reason);
  return tables != nullptr && tables->tables[0].read(&rest, 1, reason);
}

}  // namespace fabric::codecs
