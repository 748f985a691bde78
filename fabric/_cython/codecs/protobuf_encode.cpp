#include <charconv>
#include <memory>
#include <stdexcept>

#include "codecs/protobuf.hpp"
#include "codecs/protobuf_wire.hpp"
#include "codecs/rows.hpp"

namespace fabric::codecs {

namespace {

void put_varint(uint64_t value, Bytes& out) {
  char* at = out.room(10);
  int64_t n = 0;
  for (; value > 0x7F; value >>= 7) at[n++] = static_cast<char>(value | 0x80);
  at[n++] = static_cast<char>(value);
  out.set_size(out.size() + n);
}

// What `write` appends, with its length in front.
template <class Write>
void put_sized(Bytes& out, Write write) {
  const int64_t begin = out.size();
  out.add<uint8_t>(0);
  write();
  const int64_t size = out.size() - begin - 1;
  if (size < 0x80) {
    out.data()[begin] = static_cast<char>(size);
    return;
  }
  Bytes length;
  put_varint(static_cast<uint64_t>(size), length);
  out.room(length.size());
  std::memmove(out.data() + begin + length.size(), out.data() + begin + 1,
               static_cast<size_t>(size));
  std::memcpy(out.data() + begin, length.data(), static_cast<size_t>(length.size()));
  out.set_size(begin + length.size() + size);
}

}  // namespace

struct ProtobufEncoder::Writer {
  Rows rows;
  PbProgram program;
  std::string header;
  int64_t row = 0;

  [[noreturn]] void refuse(const PbField& field, const std::string& what) const {
    throw std::invalid_argument("row " + std::to_string(row) +
                                " can't be written as Protobuf: column '" +
                                rows.type(field.column_id).name + "' " + what);
  }

  void write_message(const PbMessage& message, int64_t i, Bytes& out) {
    uint64_t set = 0;  // oneofs that have a member; more than 64 are refused before
    for (const PbField& field : message.fields) {
      if (field.column_id < 0) continue;
      const Source& source = rows[field.column_id];
      if (source.is_null(i)) {
        if (field.is_required) refuse(field, "is null, and its field is required");
        continue;
      }
      if (field.oneof_id >= 0) {
        if (set >> field.oneof_id & 1) refuse(field, "is the second non-null member of its oneof");
        set |= uint64_t{1} << field.oneof_id;
      }
      if (field.shape == PbShape::map) write_map(field, source, i, out);
      else if (field.is_repeated) write_list(field, source, i, out);
      else write_field(field, source, i, out, !field.has_presence);
    }
  }

  void write_list(const PbField& field, const Source& source, int64_t i, Bytes& out) {
    const auto [begin, end] = source.range(i);
    if (begin == end) return;
    const Source& items = rows[field.column_id + 1];
    const auto each = [&, begin = begin, end = end](auto write) {
      for (int64_t k = begin; k < end; ++k) {
        if (items.is_null(k)) refuse(field, "has a list that contains null");
        write(k);
      }
    };
    if (!field.is_packed) {
      return each([&](int64_t k) { write_field(field, items, k, out, false); });
    }
    put_tag(field.number, SIZED, out);
    put_sized(out, [&] { each([&](int64_t k) { write_value(field, items, k, out); }); });
  }

  void write_map(const PbField& field, const Source& source, int64_t i, Bytes& out) {
    const PbMessage& entry = program.messages[static_cast<size_t>(field.message_id)];
    const auto [begin, end] = source.range(i);
    const int64_t shift = rows[field.column_id + 1].offset;
    for (int64_t k = begin; k < end; ++k) {
      put_tag(field.number, SIZED, out);
      put_sized(out, [&, k = k] {
        for (const PbField& part : entry.fields) {
          const Source& values = rows[part.column_id];
          if (values.is_null(shift + k)) refuse(field, "has a map that contains null");
          write_field(part, values, shift + k, out, false);
        }
      });
    }
  }

  static void put_tag(uint32_t number, uint32_t wire, Bytes& out) {
    put_varint(uint64_t{number} << 3 | wire, out);
  }

  // One value with its tag; where a zero `is_absent`, it is left out.
  void write_field(
      const PbField& field, const Source& source, int64_t i, Bytes& out, bool is_absent) {
    const int64_t begin = out.size();
    const uint32_t wire = wire_of(field.type);
    put_tag(field.number, wire, out);
    const int64_t before = out.size();
    write_value(field, source, i, out);
    if (wire == BEGIN) put_tag(field.number, END, out);
    if (!is_absent || wire == BEGIN) return;
    for (int64_t k = before; k < out.size(); ++k) {
      if (out.data()[k] != 0) return;
    }
    out.set_size(begin);  // zero, false, an empty text: as if it were not there
  }

  void write_value(const PbField& field, const Source& source, int64_t i, Bytes& out) {
    switch (field.type) {
      case PbType::double_: {
        const bool is_short = source.type->kind == Kind::float32;
        return out.add(is_short ? static_cast<double>(source.value<float>(i))
                                : source.value<double>(i));
      }
      case PbType::float_:
        return out.add(source.value<float>(i));
      case PbType::bool_:
        return out.add(static_cast<uint8_t>(bit_at(source.data, source.offset + i)));
      case PbType::string: case PbType::bytes: {
        const auto [begin, end] = source.range(i);
        put_varint(static_cast<uint64_t>(end - begin), out);
        return out.add(source.data + begin, end - begin);
      }
      case PbType::group:
        return write_message(message_of(field), source.offset + i, out);
      case PbType::message:
        return put_sized(out, [&] { write_inner(field, source, i, out); });
      case PbType::enum_:
        return put_varint(static_cast<uint64_t>(int64_t{number_of(field, source, i)}), out);
      default:
        return write_integer(field, source, i, out);
    }
  }

  const PbMessage& message_of(const PbField& field) const {
    return program.messages[static_cast<size_t>(field.message_id)];
  }

  void write_inner(const PbField& field, const Source& source, int64_t i, Bytes& out) {
    if (field.shape == PbShape::wrapper) {
      return write_field(message_of(field).fields[0], source, i, out, true);
    }
    if (field.shape == PbShape::plain) {
      return write_message(message_of(field), source.offset + i, out);
    }
    const int64_t value = source.integer(i), per_second = source.type->per_second;
    int64_t seconds = value / per_second, rest = value % per_second;
    if (field.shape == PbShape::timestamp && rest < 0) {
      seconds -= 1;
      rest += per_second;
    }
    if (seconds != 0) {
      put_tag(1, VARINT, out);
      put_varint(static_cast<uint64_t>(seconds), out);
    }
    if (rest != 0) {
      put_tag(2, VARINT, out);
      put_varint(static_cast<uint64_t>(rest * (1'000'000'000 / per_second)), out);
    }
  }

  int32_t number_of(const PbField& field, const Source& source, int64_t i) const {
    if (source.type->kind != Kind::text) return source.value<int32_t>(i);
    const auto [begin, end] = source.range(i);
    const auto* at = reinterpret_cast<const char*>(source.data);
    const std::string name(at + begin, at + end);
    const PbEnum& names = program.enums[static_cast<size_t>(field.enum_id)];
    if (const auto found = names.numbers.find(name); found != names.numbers.end()) {
      return found->second;
    }
    int32_t number = 0;
    const auto [behind, error] = std::from_chars(at + begin, at + end, number);
    if (names.is_closed || error != std::errc() || behind != at + end || name.empty()) {
      refuse(field, "is '" + name + "', which is not a value of its enum");
    }
    return number;
  }

  void write_integer(const PbField& field, const Source& source, int64_t i, Bytes& out) {
    const bool is_unsigned = source.type->kind == Kind::uint64;
    const int64_t value = source.integer(i);  // of uint64 its bits
    const bool is_large = is_unsigned && value < 0;
    const auto raw = static_cast<uint64_t>(value);
    const auto check = [&](bool is_right) {
      if (!is_right) refuse(field, "is out of its field's range");
    };
    switch (field.type) {
      case PbType::int64: check(!is_large); return put_varint(raw, out);
      case PbType::uint64: check(is_unsigned || value >= 0); return put_varint(raw, out);
      case PbType::fixed64: check(is_unsigned || value >= 0); return out.add(raw);
      case PbType::sfixed64: check(!is_large); return out.add(raw);
      case PbType::sint64:
        check(!is_large);
        return put_varint(raw << 1 ^ static_cast<uint64_t>(value >> 63), out);
      case PbType::uint32: case PbType::fixed32:
        check(!is_large && value >= 0 && value <= UINT32_MAX);
        return field.type == PbType::uint32 ? put_varint(raw, out)
                                            : out.add(static_cast<uint32_t>(value));
      default:
        check(!is_large && value == static_cast<int32_t>(value));
    }
    if (field.type == PbType::int32) return put_varint(raw, out);
    if (field.type == PbType::sfixed32) return out.add(static_cast<int32_t>(value));
    put_varint(static_cast<uint32_t>(raw << 1 ^ static_cast<uint64_t>(value >> 63)), out);
  }
};

ProtobufEncoder::ProtobufEncoder(
    const ArrowSchema& schema, PbProgram program, std::string header)
    : writer_(std::make_unique<Writer>(
          Writer{Rows(schema), std::move(program), std::move(header)})) {
  check_program(writer_->program, writer_->rows.size());
}

ProtobufEncoder::~ProtobufEncoder() = default;

void ProtobufEncoder::encode(const ArrowArray& rows, Values& out) {
  Writer& writer = *writer_;
  writer.rows.bind(rows);
  for (writer.row = 0; writer.row < rows.length; ++writer.row) {
    out.data.add(writer.header.data(), static_cast<int64_t>(writer.header.size()));
    writer.write_message(writer.program.messages[0], rows.offset + writer.row, out.data);
    out.offsets.push_back(out.data.size());
  }
}

}  // namespace fabric::codecs
