// A tree of columns from a schema, its nulls, the way back, and the Arrow arrays it becomes.
#include "codecs/columns.hpp"

#include <algorithm>
#include <charconv>

namespace fabric::codecs {
namespace {

constexpr int64_t LEAST_BYTES = 256, SPARE_BYTES = 4096;

[[noreturn]] void refuse(const ArrowSchema& schema, const char* why) {
  throw std::invalid_argument(std::string("column '") + (schema.name ? schema.name : "") +
                              "' has the Arrow format '" + schema.format + "', " + why);
}

// The comma-separated integers behind the colon of a format.
std::vector<int32_t> numbers_of(const ArrowSchema& schema) {
  std::vector<int32_t> found;
  const char* at = std::strchr(schema.format, ':');
  const char* end = schema.format + std::strlen(schema.format);
  while (at != nullptr && at < end) {
    int32_t number = 0;
    const auto [behind, error] = std::from_chars(at + 1, end, number);
    if (error != std::errc()) refuse(schema, "which is invalid");
    found.push_back(number);
    at = behind;
  }
  if (found.empty()) refuse(schema, "which is invalid");
  return found;
}

struct Simple {
  char code;
  Kind kind;
  int32_t width;
  const char* shown;
};
constexpr Simple SIMPLE[] = {
    {'n', Kind::null, 0, "null"},         {'b', Kind::boolean, 0, "bool"},
    {'c', Kind::int8, 1, "int8"},         {'s', Kind::int16, 2, "int16"},
    {'i', Kind::int32, 4, "int32"},       {'l', Kind::int64, 8, "int64"},
    {'C', Kind::uint8, 1, "uint8"},       {'S', Kind::uint16, 2, "uint16"},
    {'I', Kind::uint32, 4, "uint32"},     {'L', Kind::uint64, 8, "uint64"},
    {'e', Kind::float16, 2, "float16"},   {'f', Kind::float32, 4, "float32"},
    {'g', Kind::float64, 8, "float64"},   {'u', Kind::text, 0, "string"},
    {'U', Kind::text, 0, "large_string"}, {'z', Kind::binary, 0, "binary"},
    {'Z', Kind::binary, 0, "large_binary"},
};

void read_decimal(const ArrowSchema& schema, FieldType& type) {
  const auto numbers = numbers_of(schema);
  if (numbers.size() < 2) refuse(schema, "which is invalid");
  const int32_t bits = numbers.size() > 2 ? numbers[2] : 128;
  type.kind = Kind::decimal;
  type.precision = numbers[0], type.scale = numbers[1], type.width = bits / 8;
  type.shown = "decimal" + std::to_string(bits) + "(" + std::to_string(type.precision) + ", " +
               std::to_string(type.scale) + ")";
}

void read_temporal(const ArrowSchema& schema, FieldType& type) {
  const char kind = schema.format[1], unit = schema.format[2];
  if (kind == 'd') {
    type.kind = unit == 'D' ? Kind::date32 : Kind::date64;
    type.width = unit == 'D' ? 4 : 8;
    type.shown = unit == 'D' ? "date32" : "date64";
    return;
  }
  const char* shown = unit == 's' ? "s" : unit == 'm' ? "ms" : unit == 'u' ? "us" : "ns";
  type.per_second = unit == 's' ? 1 : unit == 'm' ? 1'000 : unit == 'u' ? 1'000'000 : 1'000'000'000;
  type.width = 8;
  if (kind == 't') {
    type.kind = Kind::time;
    type.width = unit == 's' || unit == 'm' ? 4 : 8;
    type.shown = std::string(type.width == 4 ? "time32[" : "time64[") + shown + "]";
  } else if (kind == 's') {
    type.kind = Kind::timestamp;
    const char* zone = schema.format + 4;  // behind "tsu:"
    type.has_zone = *zone != '\0';
    type.shown = std::string("timestamp[") + shown + (type.has_zone ? ", tz=" : "") + zone + "]";
  } else if (kind == 'D') {
    type.kind = Kind::duration;
    type.shown = std::string("duration[") + shown + "]";
  } else if (kind == 'i' && unit == 'n') {
    type.kind = Kind::interval;
    type.width = 16;
    type.shown = "month_day_nano_interval";
  } else {
    refuse(schema, "which is not supported for rows");
  }
}

void read_nested(const ArrowSchema& schema, FieldType& type) {
  switch (schema.format[1]) {
    case 'l': case 'L':
      type.kind = Kind::list;
      type.is_large = schema.format[1] == 'L';
      type.shown = "list";
      return;
    case 'w':
      type.kind = Kind::fixed_list;
      type.width = numbers_of(schema)[0];
      type.shown = "list of " + std::to_string(type.width);
      return;
    case 's':
      type.kind = Kind::structure;
      type.shown = "struct";
      return;
    case 'm':
      type.kind = Kind::map;
      type.shown = "map";
      return;
    default:
      refuse(schema, "which is not supported for rows");
  }
}

FieldType read_type(const ArrowSchema& schema) {
  FieldType type;
  type.name = schema.name ? schema.name : "";
  type.is_nullable = (schema.flags & ARROW_FLAG_NULLABLE) != 0;
  if (schema.dictionary != nullptr) refuse(schema, "a dictionary; use the type of its values");
  const char code = schema.format[0];
  if (code == 'd') {
    read_decimal(schema, type);
  } else if (code == 'w') {
    type.kind = Kind::fixed_binary;
    type.width = numbers_of(schema)[0];
    type.shown = "binary of " + std::to_string(type.width) + " bytes";
  } else if (code == 't') {
    read_temporal(schema, type);
  } else if (code == '+') {
    read_nested(schema, type);
  } else {
    for (const Simple& simple : SIMPLE) {
      if (simple.code != code) continue;
      type.kind = simple.kind, type.width = simple.width, type.shown = simple.shown;
      type.is_large = code == 'U' || code == 'Z';
      return type;
    }
    refuse(schema, "which is not supported for rows");
  }
  return type;
}

void release_node(ArrowArray* node) {
  for (int64_t i = 0; i < node->n_children; ++i) {
    ArrowArray* child = node->children[i];
    if (child == nullptr) continue;
    if (child->release != nullptr) child->release(child);
    std::free(child);
  }
  std::free(node->children);
  for (int64_t i = 0; i < node->n_buffers; ++i) std::free(const_cast<void*>(node->buffers[i]));
  std::free(node->buffers);
  node->release = nullptr;
}

void* zeroed(int64_t n, size_t size) {
  void* made = std::calloc(static_cast<size_t>(n > 0 ? n : 1), size);
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// The low `n` bits of the last byte of `n` bits; those above become 0.
void clear_behind(Bytes& bits, int64_t n) {
  bits.set_size((n + 7) >> 3);
  if (n & 7) bits.data()[n >> 3] &= static_cast<char>((1 << (n & 7)) - 1);
}

}  // namespace

char* Bytes::take() {
  if (data_ == nullptr) room(1);
  if (capacity_ - size_ > size_ / 4 + SPARE_BYTES) {
    void* less = std::realloc(data_, static_cast<size_t>(size_ + 64));
    if (less != nullptr) data_ = static_cast<char*>(less);
  }
  size_ = capacity_ = 0;
  return std::exchange(data_, nullptr);
}

void Bytes::grow(int64_t n) {
  const int64_t wanted = std::max({size_ + n, capacity_ * 2, LEAST_BYTES});
  void* made = std::realloc(data_, static_cast<size_t>(wanted));
  if (made == nullptr) throw std::bad_alloc();
  data_ = static_cast<char*>(made);
  capacity_ = wanted;
}

void make_array(ArrowArray& out, int64_t length, int64_t n_children) {
  out = {};
  out.release = release_node;
  out.length = length;
  try {
    out.children = static_cast<ArrowArray**>(zeroed(n_children, sizeof(ArrowArray*)));
    out.n_children = n_children;
    out.buffers = static_cast<const void**>(zeroed(3, sizeof(void*)));
    for (int64_t i = 0; i < n_children; ++i) {
      out.children[i] = static_cast<ArrowArray*>(zeroed(1, sizeof(ArrowArray)));
    }
  } catch (...) {
    out.release(&out);
    throw;
  }
}

Column::Column(const ArrowSchema& schema) : type_(read_type(schema)) {
  for (int64_t i = 0; i < schema.n_children; ++i) children_.emplace_back(*schema.children[i]);
  begin();
}

void Column::begin() {
  length_ = n_nulls_ = 0;
  if (type_.kind == Kind::text || type_.kind == Kind::binary || type_.kind == Kind::list ||
      type_.kind == Kind::map) {
    offsets_.zeros(type_.is_large ? 8 : 4);
  }
}

void Column::too_large() const {
  throw std::overflow_error("column '" + type_.name + "' exceeds 2 GiB in one batch; " +
                            "use smaller batches, or the large type");
}

void Column::bit(bool is_valid) {
  if (n_nulls_ == 0 && !is_valid) {  // the first null: all before it are valid
    validity_.set_size(0);
    const int64_t n_bytes = length_ >> 3;
    std::memset(validity_.room(n_bytes + 1), 0xFF, static_cast<size_t>(n_bytes));
    validity_.set_size(n_bytes);
    if (length_ & 7) validity_.add(static_cast<uint8_t>((1 << (length_ & 7)) - 1));
  }
  if ((length_ & 7) == 0) validity_.add<uint8_t>(0);
  validity_.data()[length_ >> 3] |= static_cast<char>(is_valid << (length_ & 7));
  n_nulls_ += !is_valid;
}

void Column::blank() {
  switch (type_.kind) {
    case Kind::null:
      break;
    case Kind::boolean:
      if ((length_ & 7) == 0) data_.add<uint8_t>(0);
      break;
    case Kind::text: case Kind::binary: case Kind::list: case Kind::map:
      if (type_.is_large) offsets_.add(offset_at(length_));
      else offsets_.add(static_cast<int32_t>(offset_at(length_)));
      break;
    case Kind::structure:
      for (Column& child : children_) child.null();
      break;
    case Kind::fixed_list:
      for (int32_t i = 0; i < type_.width; ++i) children_[0].null();
      break;
    default:
      data_.zeros(type_.width);
  }
}

void Column::null() {
  blank();
  if (!type_.is_nullable) return valid();
  if (type_.kind != Kind::null) bit(false);
  ++length_;
}

void Column::truncate(int64_t length) {
  if (n_nulls_ > 0 && length_ > length) {
    for (int64_t i = length; i < length_; ++i) {
      n_nulls_ -= (validity_.data()[i >> 3] >> (i & 7) & 1) == 0;
    }
    clear_behind(validity_, length);
  }
  length_ = length;
  switch (type_.kind) {
    case Kind::null:
      break;
    case Kind::boolean:
      clear_behind(data_, length);
      break;
    case Kind::text: case Kind::binary: case Kind::list: case Kind::map:
      offsets_.set_size((length + 1) * (type_.is_large ? 8 : 4));
      if (children_.empty()) data_.set_size(offset_at(length));
      else children_[0].truncate(offset_at(length));
      break;
    case Kind::structure:
      for (Column& child : children_) child.truncate(length);
      break;
    case Kind::fixed_list:
      children_[0].truncate(length * type_.width);
      break;
    default:
      data_.set_size(length * type_.width);
  }
}

void Column::finish(ArrowArray& out) {
  const bool is_bytes = type_.kind == Kind::text || type_.kind == Kind::binary;
  const bool has_offsets = is_bytes || type_.kind == Kind::list || type_.kind == Kind::map;
  const bool has_data = type_.kind != Kind::null && (is_bytes || children_.empty()) &&
                        type_.kind != Kind::structure;
  make_array(out, length_, static_cast<int64_t>(children_.size()));
  try {
    for (size_t i = 0; i < children_.size(); ++i) children_[i].finish(*out.children[i]);
    out.null_count = type_.kind == Kind::null ? length_ : n_nulls_;
    if (type_.kind != Kind::null) {
      if (n_nulls_ > 0) out.buffers[0] = validity_.take();
      out.n_buffers = 1;
    }
    if (has_offsets) out.buffers[out.n_buffers++] = offsets_.take();
    if (has_data) out.buffers[out.n_buffers++] = data_.take();
    begin();
  } catch (...) {
    out.release(&out);
    throw;
  }
}

void number_columns(std::vector<Column>& columns, std::vector<Column*>& out) {
  for (Column& column : columns) {
    out.push_back(&column);
    number_columns(column.children(), out);
  }
}

}  // namespace fabric::codecs
