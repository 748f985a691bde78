#include <limits>
#include <stdexcept>
#include <utility>

#include "codecs/avro.hpp"
#include "codecs/integers.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {

namespace {

void check_program(bool is_right) {
  if (!is_right) throw std::invalid_argument("an Avro program has an index out of range");
}

}  // namespace

AvroDecoder::AvroDecoder(const ArrowSchema& schema, Lookup lookup)
    : Decoder(schema), framed_(std::move(lookup)) {
  number_columns(columns(), numbered_);
}

void AvroDecoder::put(std::string header, AvroProgram program) {
  const auto n_nodes = static_cast<int32_t>(program.nodes.size());
  const auto n_texts = static_cast<int64_t>(program.texts.size());
  check_program(program.root >= 0 && program.root < n_nodes);
  for (AvroNode& node : program.nodes) {
    if (node.column_id >= 0) {
      check_program(static_cast<size_t>(node.column_id) < numbered_.size());
      node.column = numbered_[static_cast<size_t>(node.column_id)];
      node.kind = node.column->type().kind;
    }
    if (node.op != AvroOp::enum_) {
      for (int32_t child : node.children) check_program(child >= 0 && child < n_nodes);
    }
    if (node.op == AvroOp::enum_) {
      check_program(node.a >= 0 && node.b >= 0 && node.a + node.b <= n_texts &&
            node.children.size() == static_cast<size_t>(node.b));
    }
    if (node.op == AvroOp::fail || node.op == AvroOp::default_) {
      check_program(node.a >= 0 && node.a < n_texts);
    }
    const bool is_any = node.kind == Kind::int32 || node.kind == Kind::int64 ||
                        node.kind == Kind::date32 || node.kind == Kind::timestamp ||
                        node.kind == Kind::duration;  // any number is a value
    if (node.column != nullptr && node.a == 1 && node.b == 1 && is_any) {
      const int32_t width = node.column->type().width;
      if (node.op == AvroOp::long_ && width == 8) node.op = AvroOp::int64;
      if (node.op == AvroOp::int_ && width == 4) node.op = AvroOp::int32;
    }
    if (node.op == AvroOp::decimal) node.most = largest(node.column->type().precision);
  }
  framed_.put(std::move(header), std::make_unique<AvroProgram>(std::move(program)));
}

bool AvroDecoder::decode(const Span& value, std::string& reason) {
  Span rest = value;
  const bool has_header = framed_.has_header();
  if (has_header && !framed_.has_id(value, reason)) return false;
  const AvroProgram* program = framed_.find(rest, has_header ? ID_BYTES : 0, reason);
  if (program == nullptr) return false;
  Row row{rest.data, rest.data, rest.data + rest.size, 0, 0, reason};
  if (!run(*program, program->root, row)) return false;
  if (row.at == row.end) return true;
  reason = std::to_string(row.left()) + " bytes follow the end of the row, at byte " +
           std::to_string(row.at - row.begin);
  return false;
}

bool AvroDecoder::Row::wrong(const char* what) {
  reason = std::string(what) + " at byte " + std::to_string(at - begin) + " of " +
           std::to_string(end - begin);
  return false;
}

bool AvroDecoder::Row::number(uint64_t& out, const char* what) {
  if (__builtin_expect(at < end && *at < 0x80, 1)) {
    out = *at++;
    return true;
  }
  uint64_t value = 0;
  for (int shift = 0; at < end; shift += 7) {
    const uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return wrong("a number has more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      out = value;
      return true;
    }
  }
  return wrong(what);
}

bool AvroDecoder::Row::integer(int64_t& out, const char* what) {
  uint64_t raw = 0;
  if (!number(raw, what)) return false;
  out = unzigzag(raw);
  return true;
}

bool AvroDecoder::Row::bytes(int64_t n, const uint8_t*& out, const char* what) {
  if (n < 0 || n > left()) return wrong(what);
  out = at;
  at += n;
  return true;
}

bool AvroDecoder::Row::sized(const uint8_t*& out, int64_t& size, const char* what) {
  return integer(size, what) && bytes(size, out, what);
}

bool AvroDecoder::run(const AvroProgram& program, int32_t node_id, Row& row) {
  const AvroNode& node = program.nodes[static_cast<size_t>(node_id)];
  switch (node.op) {
    case AvroOp::int64: case AvroOp::int32: {
      uint64_t raw = 0;
      if (!row.number(raw, "a number is truncated")) return false;
      const int64_t value = unzigzag(raw);
      if (node.op == AvroOp::int64) {
        node.column->number(value);
        return true;
      }
      if (value != static_cast<int32_t>(value)) return row.wrong("an int has more than 32 bits");
      node.column->number(static_cast<int32_t>(value));
      return true;
    }
    case AvroOp::null: case AvroOp::boolean: case AvroOp::int_: case AvroOp::long_:
    case AvroOp::float_: case AvroOp::double_: case AvroOp::bytes: case AvroOp::fixed:
    case AvroOp::decimal: case AvroOp::duration: case AvroOp::enum_:
      return scalar(program, node, row);
    default: {
      if (++row.depth > AVRO_DEPTH_MAX) return row.wrong("values are nested too deeply");
      const bool is_right = branch(program, node, row);
      --row.depth;
      return is_right;
    }
  }
}

bool AvroDecoder::branch(const AvroProgram& program, const AvroNode& node, Row& row) {
  switch (node.op) {
    case AvroOp::record:
      for (int32_t child : node.children) {
        if (!run(program, child, row)) return false;
      }
      if (node.column != nullptr) node.column->end_struct();
      return true;
    case AvroOp::union_: {
      int64_t index = 0;
      if (!row.integer(index, "a union's branch is truncated")) return false;
      if (index < 0 || index >= static_cast<int64_t>(node.children.size())) {
        return row.wrong("a union's branch index is out of range");
      }
      return run(program, node.children[static_cast<size_t>(index)], row);
    }
    case AvroOp::array: case AvroOp::map:
      return items(program, node, row);
    case AvroOp::member:
      return member(program, node, row);
    case AvroOp::default_: {
      const std::string& text = program.texts[static_cast<size_t>(node.a)];
      const auto* at = reinterpret_cast<const uint8_t*>(text.data());
      Row inner{at, at, at + text.size(), 0, row.depth, row.reason};
      return run(program, node.children[0], inner);
    }
    default:
      row.reason = program.texts[static_cast<size_t>(node.a)];
      return false;
  }
}

bool AvroDecoder::member(const AvroProgram& program, const AvroNode& node, Row& row) {
  auto& columns = node.column->children();
  for (size_t k = 0; k < columns.size(); ++k) {
    if (static_cast<int64_t>(k) != node.a) columns[k].null();
  }
  if (!run(program, node.children[0], row)) return false;
  node.column->end_struct();
  return true;
}

bool AvroDecoder::items(const AvroProgram& program, const AvroNode& node, Row& row) {
  const char* cut_off = "a count of items is truncated";
  for (;;) {
    int64_t count = 0;
    if (!row.integer(count, cut_off)) return false;
    if (count == 0) break;
    if (count < 0) {  // its size in bytes follows, so that a reader may jump over it
      int64_t size = 0;
      if (!row.integer(size, cut_off)) return false;
      if (size < 0 || size > row.left()) return row.wrong("a block of items is truncated");
      if (node.column == nullptr) {
        row.at += size;
        continue;
      }
      if (count == std::numeric_limits<int64_t>::min()) return row.wrong("too many items");
      count = -count;
    }
    if (node.a > 0 ? count > row.left() / node.a : count > EMPTY_ITEMS_MAX - row.n_empty) {
      return row.wrong("an item count exceeds the size of the row");
    }
    if (node.a <= 0) row.n_empty += count;
    for (int64_t k = 0; k < count; ++k) {
      for (int32_t child : node.children) {
        if (!run(program, child, row)) return false;
      }
      if (node.op == AvroOp::map && node.column != nullptr) {
        node.column->children()[0].end_struct();
      }
    }
  }
  if (node.column != nullptr) node.column->end_list();
  return true;
}

bool AvroDecoder::scalar(const AvroProgram& program, const AvroNode& node, Row& row) {
  const uint8_t* at = nullptr;
  int64_t value = 0;
  switch (node.op) {
    case AvroOp::null:
      if (node.column != nullptr) node.column->null();
      return true;
    case AvroOp::boolean:
      if (!row.bytes(1, at, "a boolean is truncated")) return false;
      if (*at > 1) return row.wrong("a boolean is neither 0 nor 1");
      if (node.column != nullptr) node.column->boolean(*at == 1);
      return true;
    case AvroOp::int_: case AvroOp::long_:
      if (!row.integer(value, "a number is truncated")) return false;
      if (node.op == AvroOp::int_ && value != static_cast<int32_t>(value)) {
        return row.wrong("an int has more than 32 bits");
      }
      if (node.column == nullptr) return true;
      if (node.b > 1 && value % node.b != 0) {
        return row.wrong("a time is more precise than its column");
      }
      if (node.b > 1) value /= node.b;
      if ((node.a > 1 && __builtin_mul_overflow(value, node.a, &value)) ||
          !append_integer(*node.column, node.kind, value)) {
        return row.wrong("a number is out of its column's range");
      }
      return true;
    case AvroOp::float_: {
      float number;
      if (!row.bytes(sizeof number, at, "a float is truncated")) return false;
      std::memcpy(&number, at, sizeof number);
      if (node.column == nullptr) return true;
      if (node.kind == Kind::float32) node.column->number(number);
      else node.column->number(static_cast<double>(number));
      return true;
    }
    case AvroOp::double_: {
      double number;
      if (!row.bytes(sizeof number, at, "a double is truncated")) return false;
      std::memcpy(&number, at, sizeof number);
      if (node.column != nullptr) node.column->number(number);
      return true;
    }
    case AvroOp::bytes:
      if (!row.sized(at, value, "a string or bytes are truncated")) return false;
      if (node.column == nullptr) return true;
      if (node.kind == Kind::text && !is_utf8(at, value)) return row.wrong("a string is not UTF-8");
      node.column->bytes(at, value);
      return true;
    case AvroOp::fixed:
      if (!row.bytes(node.a, at, "a fixed is truncated")) return false;
      if (node.column != nullptr) node.column->fixed(at);
      return true;
    case AvroOp::decimal:
      return decimal(node, row);
    case AvroOp::duration: {
      if (!row.bytes(12, at, "a duration is truncated")) return false;
      uint32_t parts[3];
      std::memcpy(parts, at, sizeof parts);
      if ((parts[0] | parts[1]) >> 31 != 0) return row.wrong("a duration is out of range");
      const int64_t nanoseconds = int64_t{parts[2]} * 1'000'000;
      uint8_t made[16];
      std::memcpy(made, parts, 8);
      std::memcpy(made + 8, &nanoseconds, 8);
      node.column->fixed(made);
      return true;
    }
    default:
      if (!row.integer(value, "an enum is truncated")) return false;
      if (value < 0 || value >= node.b) return row.wrong("an enum's symbol index is out of range");
      const std::string& symbol = program.texts[static_cast<size_t>(node.a + value)];
      if (node.children[static_cast<size_t>(value)] == 0) {
        row.reason = "the enum symbol " + symbol + " is not in the reader's schema";
        return false;
      }
      node.column->bytes(symbol);
      return true;
  }
}

bool AvroDecoder::decimal(const AvroNode& node, Row& row) {
  const uint8_t* at = nullptr;
  int64_t size = node.a;
  const char* cut_off = "a decimal is truncated";
  if (!(size >= 0 ? row.bytes(size, at, cut_off) : row.sized(at, size, cut_off))) return false;
  Int256 value;
  if (!read_int256(at, size, node.most, value)) return row.wrong("a decimal has too many digits");
  node.column->fixed(value.words);
  return true;
}

}  // namespace fabric::codecs
