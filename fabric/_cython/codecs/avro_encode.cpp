#include <stdexcept>
#include <utility>

#include "codecs/avro.hpp"

namespace fabric::codecs {

namespace {

void write_varint(int64_t value, Bytes& out) {
  uint64_t rest = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  char* at = out.room(10);
  int64_t n = 0;
  for (; rest > 0x7F; rest >>= 7) at[n++] = static_cast<char>(rest | 0x80);
  at[n++] = static_cast<char>(rest);
  out.set_size(out.size() + n);
}

void write_sized(const uint8_t* at, int64_t size, Bytes& out) {
  write_varint(size, out);
  out.add(at, size);
}

}  // namespace

AvroEncoder::AvroEncoder(const ArrowSchema& schema, AvroProgram program, std::string header)
    : rows_(schema), program_(std::move(program)), header_(std::move(header)) {
  symbols_.resize(program_.nodes.size());
  const auto n_nodes = static_cast<int32_t>(program_.nodes.size());
  const auto n_texts = static_cast<int64_t>(program_.texts.size());
  bool is_right = program_.root >= 0 && program_.root < n_nodes;
  for (size_t n = 0; n < program_.nodes.size(); ++n) {
    AvroNode& node = program_.nodes[n];
    is_right = is_right && node.column_id < static_cast<int32_t>(rows_.size());
    if (node.op == AvroOp::default_) is_right = is_right && node.a >= 0 && node.a < n_texts;
    if (node.op == AvroOp::enum_) is_right = is_right && node.a >= 0 && node.a + node.b <= n_texts;
    const bool is_member = node.op == AvroOp::member;  // pairs of a branch and its node
    for (size_t k = is_member ? 1 : 0; k < node.children.size(); k += is_member ? 2 : 1) {
      is_right = is_right && node.children[k] >= 0 && node.children[k] < n_nodes;
    }
    if (!is_right) throw std::invalid_argument("an Avro program has an index out of range");
    if (node.column_id >= 0) node.kind = rows_.type(node.column_id).kind;
    for (int64_t k = 0; node.op == AvroOp::enum_ && k < node.b; ++k) {
      symbols_[n].emplace(program_.texts[static_cast<size_t>(node.a + k)], k);
    }
  }
}

AvroEncoder::~AvroEncoder() = default;

void AvroEncoder::encode(const ArrowArray& rows, Values& out) {
  rows_.bind(rows);
  for (row_ = 0; row_ < rows.length; ++row_) {
    out.data.add(header_.data(), static_cast<int64_t>(header_.size()));
    write(program_.root, rows.offset + row_, out.data);
    out.offsets.push_back(out.data.size());
  }
}

void AvroEncoder::refuse(const AvroNode& node, const std::string& what) const {
  const std::string name = node.column_id < 0 ? "" : rows_.type(node.column_id).name;
  throw std::invalid_argument(
      "row " + std::to_string(row_) + " can't be written as Avro: column '" + name + "' " + what);
}

void AvroEncoder::write(int32_t node_id, int64_t i, Bytes& out) const {
  const AvroNode& node = program_.nodes[static_cast<size_t>(node_id)];
  if (node.op == AvroOp::default_) {
    const std::string& text = program_.texts[static_cast<size_t>(node.a)];
    return out.add(text.data(), static_cast<int64_t>(text.size()));
  }
  if (node.column_id < 0) {  // the row itself
    for (int32_t child : node.children) write(child, i, out);
    return;
  }
  const Source& source = rows_[node.column_id];
  if (node.op == AvroOp::null) {
    if (node.kind != Kind::null && !source.is_null(i)) {
      refuse(node, "is not null, but its field is");
    }
    return;
  }
  const bool is_null = source.is_null(i);
  if (node.op == AvroOp::union_) {
    if (is_null && node.a < 0) refuse(node, "is null, but its field is not nullable");
    write_varint(is_null ? node.a : node.b, out);
    return is_null ? void() : write(node.children[0], i, out);
  }
  if (is_null && !(node.op == AvroOp::member && node.a >= 0)) {
    refuse(node, "is null, but its field is not nullable");
  }
  switch (node.op) {
    case AvroOp::record:
      for (int32_t child : node.children) write(child, source.offset + i, out);
      return;
    case AvroOp::member:
      return is_null ? write_varint(node.a, out) : write_member(node, source.offset + i, out);
    case AvroOp::array: case AvroOp::map:
      return write_items(node, source, i, out);
    case AvroOp::enum_:
      return write_symbol(node, source, i, out);
    default:
      return write_scalar(node, source, i, out);
  }
}

void AvroEncoder::write_items(
    const AvroNode& node, const Source& source, int64_t i, Bytes& out) const {
  const auto [begin, end] = source.range(i);
  // The entries of a map are a struct below it, whose offset counts too.
  const int64_t shift =
      node.op == AvroOp::map ? rows_[node.column_id + 1].offset : 0;
  if (begin < end) write_varint(end - begin, out);
  for (int64_t k = begin; k < end; ++k) {
    for (int32_t child : node.children) write(child, shift + k, out);
  }
  write_varint(0, out);
}

void AvroEncoder::write_member(const AvroNode& node, int64_t i, Bytes& out) const {
  int64_t found = -1;
  for (size_t k = 0; k < node.children.size(); k += 2) {
    const AvroNode& child = program_.nodes[static_cast<size_t>(node.children[k + 1])];
    if (child.kind == Kind::null) continue;
    if (rows_[child.column_id].is_null(i)) continue;
    if (found >= 0) refuse(node, "has two non-null members for its union");
    found = static_cast<int64_t>(k);
  }
  if (found < 0 && node.a < 0) refuse(node, "has no non-null member for its union");
  if (found < 0) return write_varint(node.a, out);
  write_varint(node.children[static_cast<size_t>(found)], out);
  write(node.children[static_cast<size_t>(found) + 1], i, out);
}

void AvroEncoder::write_symbol(
    const AvroNode& node, const Source& source, int64_t i, Bytes& out) const {
  const auto [begin, end] = source.range(i);
  const std::string_view text(reinterpret_cast<const char*>(source.data) + begin,
                              static_cast<size_t>(end - begin));
  const auto& symbols = symbols_[static_cast<size_t>(&node - program_.nodes.data())];
  const auto found = symbols.find(text);
  if (found == symbols.end()) {
    refuse(node, "is '" + std::string(text) + "', which is not a symbol of its enum");
  }
  write_varint(found->second, out);
}

void AvroEncoder::write_scalar(
    const AvroNode& node, const Source& source, int64_t i, Bytes& out) const {
  switch (node.op) {
    case AvroOp::boolean:
      return out.add(static_cast<uint8_t>(bit_at(source.data, source.offset + i)));
    case AvroOp::int_: case AvroOp::long_:
      return write_integer(node, source, i, out);
    case AvroOp::float_:
      return out.add(source.value<float>(i));
    case AvroOp::double_:
      if (node.kind == Kind::float64) return out.add(source.value<double>(i));
      if (node.kind == Kind::float32) {
        return out.add(static_cast<double>(source.value<float>(i)));
      }
      return out.add(static_cast<double>(source.value<int32_t>(i)));
    case AvroOp::bytes: {
      const auto [begin, end] = source.range(i);
      return write_sized(source.data + begin, end - begin, out);
    }
    case AvroOp::fixed:
      return out.add(source.fixed(i), node.a);
    case AvroOp::decimal:
      return write_decimal(node, source, i, out);
    default: {  // a duration
      const uint8_t* value = source.fixed(i);
      const auto months = load<int32_t>(value), days = load<int32_t>(value + 4);
      const auto nanoseconds = load<int64_t>(value + 8);
      const int64_t milliseconds = nanoseconds / 1'000'000;
      if (months < 0 || days < 0 || nanoseconds < 0 || nanoseconds % 1'000'000 != 0 ||
          milliseconds > UINT32_MAX) {
        refuse(node, "is a duration below zero, or with parts of a millisecond");
      }
      out.add(months);
      out.add(days);
      out.add(static_cast<uint32_t>(milliseconds));
    }
  }
}

void AvroEncoder::write_integer(
    const AvroNode& node, const Source& source, int64_t i, Bytes& out) const {
  int64_t value = source.integer(i);
  if (node.kind == Kind::uint64 && value < 0) {
    refuse(node, "is over 2^63 - 1, the most that a long holds");
  }
  if (node.b > 1 && value % node.b != 0) refuse(node, "is more precise than its field");
  if (node.b > 1) value /= node.b;
  if (node.a > 1 && __builtin_mul_overflow(value, node.a, &value)) {
    refuse(node, "is out of its field's range");
  }
  if (node.op == AvroOp::int_ && value != static_cast<int32_t>(value)) {
    refuse(node, "is out of its field's range");
  }
  write_varint(value, out);
}

void AvroEncoder::write_decimal(
    const AvroNode& node, const Source& source, int64_t i, Bytes& out) const {
  const Int256 value = load_int256(source.fixed(i), source.type->width);
  uint8_t bytes[32];
  const int64_t size = write_int256(value, bytes);
  if (node.a < 0) return write_sized(bytes, size, out);
  if (size > node.a) refuse(node, "has more digits than its field");
  const uint8_t sign = value.is_negative() ? 0xFF : 0;
  for (int64_t k = size; k < node.a; ++k) out.add(sign);
  out.add(bytes, size);
}

}  // namespace fabric::codecs
