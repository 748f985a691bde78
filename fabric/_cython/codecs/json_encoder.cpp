// Columns to JSON documents, a row at a time.
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "codecs/text.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

// Whether one of these 8 bytes is a quote, a backslash, or below a space.
bool has_escaped(uint64_t word) {
  constexpr uint64_t ONES = 0x0101010101010101, HIGH = 0x8080808080808080;
  const auto has_zero = [](uint64_t x) { return (x - ONES) & ~x & HIGH; };
  return (has_zero(word ^ ONES * '"') | has_zero(word ^ ONES * '\\') |
          ((word - ONES * 0x20) & ~word & HIGH)) != 0;
}

char* put_escaped(char* to, char c) {
  static constexpr char HEX[] = "0123456789abcdef";
  *to++ = '\\';
  switch (c) {
    case '"': case '\\': *to++ = c; return to;
    case '\b': *to++ = 'b'; return to;
    case '\f': *to++ = 'f'; return to;
    case '\n': *to++ = 'n'; return to;
    case '\r': *to++ = 'r'; return to;
    case '\t': *to++ = 't'; return to;
    default:
      *to++ = 'u', *to++ = '0', *to++ = '0';
      *to++ = static_cast<char>('0' + (c >> 4));
      *to++ = HEX[c & 15];
      return to;
  }
}

bool is_escaped(char c) { return static_cast<uint8_t>(c) < 0x20 || c == '"' || c == '\\'; }

// A column, and what stands before each of its values.
struct Node {
  const FieldType* type;
  std::string head;  // ,"name":
  std::vector<Node> inside;
  bool is_quoted;

  explicit Node(const Column& column) : type(&column.type()) {
    Bytes name;
    write_json_string(type->name, name);
    head = "," + std::string(name.data(), static_cast<size_t>(name.size())) + ":";
    for (const Column& child : column.children()) inside.emplace_back(child);
    switch (type->kind) {
      case Kind::text: case Kind::binary: case Kind::fixed_binary: case Kind::date32:
      case Kind::date64: case Kind::time: case Kind::timestamp:
        is_quoted = true;
        break;
      default:
        is_quoted = false;
    }
    if (type->kind != Kind::map) return;
    if (!inside[0].inside[0].inside.empty()) {
      throw std::invalid_argument("column '" + type->name +
                                  "' is a map whose keys are not scalars; JSON keys are strings");
    }
  }
};

class JsonEncoder final : public Encoder {
 public:
  JsonEncoder(const ArrowSchema& schema, std::string prefix)
      : types_(schema), top_(types_), prefix_(std::move(prefix)) {
    check_json_type(types_);
  }

  void encode(const ArrowArray& rows, Values& out) override {
    out.offsets.reserve(out.offsets.size() + static_cast<size_t>(rows.length));
    for (int64_t i = 0; i < rows.length; ++i) {
      out.data.add(prefix_.data(), static_cast<int64_t>(prefix_.size()));
      object(top_, rows, rows.offset + i, out.data);
      out.end();
    }
  }

 private:
  // `row` counts from the begin of the buffers of a struct, and so is a row of its children.
  static void object(const Node& node, const ArrowArray& array, int64_t row, Bytes& out) {
    const size_t n = node.inside.size();
    if (n == 0) return out.add("{}", 2);
    for (size_t i = 0; i < n; ++i) {
      const Node& child = node.inside[i];
      const auto n_head = static_cast<int64_t>(child.head.size());
      char* to = out.room(n_head);
      std::memcpy(to, child.head.data(), child.head.size());
      if (i == 0) *to = '{';
      out.set_size(out.size() + n_head);
      value(child, *array.children[i], row, out);
    }
    out.add('}');
  }

  // Value `index` of an array, counted from its offset.
  static void value(const Node& node, const ArrowArray& array, int64_t index, Bytes& out) {
    const FieldType& type = *node.type;
    const int64_t row = array.offset + index;
    if (array.null_count != 0 && array.n_buffers > 0 && array.buffers[0] != nullptr &&
        !bit_at(bytes_of(array, 0), row)) {
      return out.add("null", 4);
    }
    switch (type.kind) {
      case Kind::text:
        return write_json_string(bytes_at(type, array, row), out);
      case Kind::structure:
        return object(node, array, row, out);
      case Kind::list: case Kind::fixed_list: {
        const auto [begin, end] = range(type, array, row);
        out.add('[');
        for (int64_t i = begin; i < end; ++i) {
          if (i > begin) out.add(',');
          value(node.inside[0], *array.children[0], i, out);
        }
        return out.add(']');
      }
      case Kind::map: {
        const auto [begin, end] = range(type, array, row);
        const ArrowArray& entries = *array.children[0];
        const std::vector<Node>& pair = node.inside[0].inside;
        out.add('{');
        for (int64_t i = begin; i < end; ++i) {
          if (i > begin) out.add(',');
          key(pair[0], *entries.children[0], entries.offset + i, out);
          out.add(':');
          value(pair[1], *entries.children[1], entries.offset + i, out);
        }
        return out.add('}');
      }
      default:
        break;
    }
    if (node.is_quoted) out.add('"');
    if (!write_text(type, array, row, out)) out.add("null", 4);
    if (node.is_quoted) out.add('"');
  }

  static void key(const Node& node, const ArrowArray& array, int64_t index, Bytes& out) {
    if (node.is_quoted) return value(node, array, index, out);
    out.add('"');
    if (!write_text(*node.type, array, array.offset + index, out)) out.add("null", 4);
    out.add('"');
  }

  static std::pair<int64_t, int64_t> range(const FieldType& type, const ArrowArray& array,
                                           int64_t row) {
    if (type.kind == Kind::fixed_list) return {row * type.width, (row + 1) * type.width};
    if (type.is_large) {
      const auto* ends = buffer_of<int64_t>(array, 1);
      return {ends[row], ends[row + 1]};
    }
    const auto* ends = buffer_of<int32_t>(array, 1);
    return {ends[row], ends[row + 1]};
  }

  Column types_;  // of no rows: what the schema says
  Node top_;
  std::string prefix_;
};

}  // namespace

void write_json_string(std::string_view text, Bytes& out) {
  constexpr int64_t LONGEST = 8;  // bytes that one becomes, and the last quote
  const char* at = text.data();
  const char* const end = at + text.size();
  char* to = out.room(static_cast<int64_t>(text.size()) + LONGEST);
  *to++ = '"';
  while (at < end) {
    uint64_t word;
    if (end - at >= 8 && (std::memcpy(&word, at, 8), !has_escaped(word))) {
      std::memcpy(to, at, 8);
      at += 8, to += 8;
      continue;
    }
    const char* const step = end - at < 8 ? end : at + 8;
    for (; at < step; ++at) {
      if (!is_escaped(*at)) {
        *to++ = *at;
        continue;
      }
      to = put_escaped(to, *at);
      out.set_size(to - out.data());
      to = out.room(end - at + LONGEST);
    }
  }
  *to++ = '"';
  out.set_size(to - out.data());
}

std::unique_ptr<Encoder> make_json_encoder(const ArrowSchema& schema, std::string prefix) {
  return std::make_unique<JsonEncoder>(schema, std::move(prefix));
}

}  // namespace fabric::codecs
