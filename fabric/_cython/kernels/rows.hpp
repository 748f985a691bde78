// One row as bytes: values of any plain Arrow type, one after the other (format in rows.pyx).
//
// One job: `RowColumn` writes the values of a bound column, `RowReader` walks over bytes (and
// hashes them as hash.hpp hashes columns). Building columns from bytes lives in row_columns.hpp.
// Arrays are trusted, bytes are not: what ends too soon is an error.
#pragma once
#include <stdexcept>

#include "hash.hpp"

namespace fabric {

constexpr uint8_t ROW_NULL = 0, ROW_VALID = 1;

// Throws std::invalid_argument where a type has an encoding (view, dictionary, ...) inside.
inline void check_row_type(const Type& type) {
  switch (type.layout) {
    case Layout::null: case Layout::boolean: case Layout::fixed: case Layout::binary:
    case Layout::large_binary: break;
    case Layout::list: case Layout::large_list: case Layout::fixed_list: case Layout::structure:
      for (const Type& child : type.children) check_row_type(child);
      break;
    default:
      throw std::invalid_argument(
          "rows hold plain types: cast views, list views, dictionaries, run-end encodings and "
          "unions first");
  }
}

// A float's bits as keys are compared: -0.0 is 0.0, one NaN (design of the hash).
inline void write_canonical(const Type& type, const uint8_t* in, uint8_t* out) {
  if (type.value == Value::float64) {
    const uint64_t bits = double_word(load<double>(in));
    std::memcpy(out, &bits, 8);
  } else if (type.value == Value::float32) {
    float x = load<float>(in) + 0.0f;
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (x != x) bits = 0x7FC00000;
    std::memcpy(out, &bits, 4);
  } else if (type.value == Value::float16) {
    uint16_t bits = load<uint16_t>(in);
    if ((bits & 0x7FFF) > 0x7C00) bits = 0x7E00;
    if (bits == 0x8000) bits = 0;
    std::memcpy(out, &bits, 2);
  } else {
    std::memcpy(out, in, static_cast<size_t>(type.width));
  }
}

inline uint32_t row_length(int64_t n) {
  if (n > INT64_C(0xFFFFFFFF)) throw std::overflow_error("a value has more than 4 GiB");
  return static_cast<uint32_t>(n);
}

// One column, bound for writing. `canonical`: floats as keys.
class RowColumn {
 public:
  RowColumn(const Type& type, const ArrowArray& array, bool canonical)
      : type_(type), array_(array), canonical_(canonical), validity_(validity_of(type, array)) {
    for (size_t i = 0; i < type.children.size(); ++i) {
      children_.emplace_back(type.children[i], *array.children[i], canonical);
    }
  }

  int64_t size(int64_t row) const {
    row += array_.offset;
    if (is_null(row)) return 1;
    switch (type_.layout) {
      case Layout::boolean: return 2;
      case Layout::fixed: return 1 + type_.width;
      case Layout::binary: return 5 + span<int32_t>(row).n;
      case Layout::large_binary: return 5 + span<int64_t>(row).n;
      case Layout::list: return 5 + elements_size(span<int32_t>(row));
      case Layout::large_list: return 5 + elements_size(span<int64_t>(row));
      case Layout::fixed_list: return 1 + elements_size({row * type_.width, type_.width});
      default: {
        int64_t n = 1;
        for (const RowColumn& child : children_) n += child.size(row);
        return n;
      }
    }
  }

  uint8_t* write(int64_t row, uint8_t* out) const {
    row += array_.offset;
    if (is_null(row)) return *out = ROW_NULL, out + 1;
    *out++ = ROW_VALID;
    switch (type_.layout) {
      case Layout::boolean: *out = bit_at(bytes_of(array_, 1), row); return out + 1;
      case Layout::fixed: return fixed(bytes_of(array_, 1) + row * type_.width, out);
      case Layout::binary: return bytes(span<int32_t>(row), out);
      case Layout::large_binary: return bytes(span<int64_t>(row), out);
      case Layout::list: return counted(span<int32_t>(row), out);
      case Layout::large_list: return counted(span<int64_t>(row), out);
      case Layout::fixed_list: return elements({row * type_.width, type_.width}, out);
      default:
        for (const RowColumn& child : children_) out = child.write(row, out);
        return out;
    }
  }

 private:
  struct Span { int64_t first, n; };

  bool is_null(int64_t row) const {
    return type_.layout == Layout::null || (validity_ != nullptr && !bit_at(validity_, row));
  }

  template <class Offset>
  Span span(int64_t row) const {
    const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
    return {offsets[0], offsets[1] - offsets[0]};
  }

  int64_t elements_size(Span span) const {
    int64_t n = 0;
    for (int64_t i = 0; i < span.n; ++i) n += children_[0].size(span.first + i);
    return n;
  }

  uint8_t* fixed(const uint8_t* in, uint8_t* out) const {
    if (canonical_) write_canonical(type_, in, out);
    else std::memcpy(out, in, static_cast<size_t>(type_.width));
    return out + type_.width;
  }

  static uint8_t* length(int64_t n, uint8_t* out) {
    const uint32_t length = row_length(n);
    std::memcpy(out, &length, 4);
    return out + 4;
  }

  uint8_t* bytes(Span span, uint8_t* out) const {
    out = length(span.n, out);
    if (span.n > 0) std::memcpy(out, bytes_of(array_, 2) + span.first, static_cast<size_t>(span.n));
    return out + span.n;
  }

  uint8_t* elements(Span span, uint8_t* out) const {
    for (int64_t i = 0; i < span.n; ++i) out = children_[0].write(span.first + i, out);
    return out;
  }

  uint8_t* counted(Span span, uint8_t* out) const { return elements(span, length(span.n, out)); }

  const Type& type_;
  const ArrowArray& array_;
  bool canonical_;
  const uint8_t* validity_;
  std::vector<RowColumn> children_;
};

// Walks over the bytes of values; throws std::runtime_error where they end too soon.
class RowReader {
 public:
  RowReader() = default;
  RowReader(const uint8_t* data, int64_t n) : at_(data), end_(data + n) {}

  const uint8_t* at() const { return at_; }
  bool done() const { return at_ == end_; }

  const uint8_t* take(int64_t n) {
    if (end_ - at_ < n) throw std::runtime_error("a row of state ends too soon: it is damaged");
    const uint8_t* taken = at_;
    at_ += n;
    return taken;
  }

  bool valid() {
    const uint8_t tag = *take(1);
    if (tag > ROW_VALID) throw std::runtime_error("a row of state is damaged, or of another type");
    return tag == ROW_VALID;
  }

  template <class T>
  T number() { return load<T>(take(sizeof(T))); }

  int64_t length() { return number<uint32_t>(); }

  void skip(const Type& type) {
    if (!valid()) return;
    switch (type.layout) {
      case Layout::null: return;
      case Layout::boolean: take(1); return;
      case Layout::fixed: take(type.width); return;
      case Layout::binary: case Layout::large_binary: take(length()); return;
      case Layout::list: case Layout::large_list: return skip_many(type.children[0], length());
      case Layout::fixed_list: return skip_many(type.children[0], type.width);
      default:
        for (const Type& child : type.children) skip(child);
    }
  }

  // The word of hash.hpp for a value without children.
  uint64_t word(const Type& type) {
    if (!valid() || type.layout == Layout::null) return NULL_WORD;
    if (type.layout == Layout::boolean) return *take(1);
    if (type.layout == Layout::fixed) return fixed_word(type, take(type.width));
    const int64_t n = length();
    return bytes_word(take(n), static_cast<uint64_t>(n));
  }

 private:
  void skip_many(const Type& type, int64_t n) {
    for (int64_t i = 0; i < n; ++i) skip(type);
  }

  static int64_t integer(const uint8_t* value, int32_t width) {
    switch (width) {
      case 1: return load<int8_t>(value);
      case 2: return load<int16_t>(value);
      case 4: return load<int32_t>(value);
      default: return load<int64_t>(value);
    }
  }

  static uint64_t fixed_word(const Type& type, const uint8_t* value) {
    uint64_t word = 0;
    switch (type.value) {
      case Value::signed_int: return static_cast<uint64_t>(integer(value, type.width));
      case Value::unsigned_int:
        std::memcpy(&word, value, static_cast<size_t>(type.width));
        return word;
      case Value::temporal:
        word = static_cast<uint64_t>(integer(value, type.width));
        return word * static_cast<uint64_t>(type.nanoseconds);
      case Value::float64: return double_word(load<double>(value));
      case Value::float32: return double_word(static_cast<double>(load<float>(value)));
      case Value::float16: return double_word(half_to_double(load<uint16_t>(value)));
      case Value::decimal: return decimal_word(value, type.width, scale_factor(type.scale));
      default: return bytes_word(value, static_cast<uint64_t>(type.width));
    }
  }

  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
};

// The columns of a row as one thing: a struct that is never null itself.
class RowTypes {
 public:
  RowTypes() = default;
  explicit RowTypes(const ArrowSchema& schema) {  // of a struct
    for (int64_t i = 0; i < schema.n_children; ++i) {
      types_.push_back(parse_type(*schema.children[i]));
      check_row_type(types_.back());
    }
  }

  const std::vector<Type>& types() const { return types_; }

  bool are_flat() const {  // can be keys
    for (const Type& type : types_) {
      if (!type.children.empty() || type.value == Value::days_ms ||
          type.value == Value::months_days_ns || type.layout == Layout::structure) {
        return false;
      }
    }
    return true;
  }

  // How many bytes the columns take at the front of `data`.
  int64_t front(const uint8_t* data, int64_t n) const {
    RowReader reader(data, n);
    for (const Type& type : types_) reader.skip(type);
    return reader.at() - data;
  }

  // hash_columns of these columns, from their bytes.
  uint64_t hash(const uint8_t* data, int64_t n) const {
    RowReader reader(data, n);
    uint64_t hash = start_of(0);
    for (const Type& type : types_) hash = step(hash, reader.word(type));
    return hash;
  }

 private:
  std::vector<Type> types_;
};

}  // namespace fabric
