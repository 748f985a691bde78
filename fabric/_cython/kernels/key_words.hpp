// Rows of key columns as words that are equal exactly when the keys are.
//
// One job: `KeyRows`, how a row of keys lies in words of 64 bits (and bytes behind them), and
// `KeyReader`, one column of a batch put into these words. A row is: words of null bits (not where
// there is a single key of one word), then each key: its bytes, sign-extended or zero-padded to
// words, -0.0 as 0.0 and one NaN (design of the hash); for strings and binary their length, and the
// bytes in the row's tail. A null key is zeros. Layouts don't count: dictionaries and views too.
#pragma once
#include <string>

#include "words.hpp"

namespace fabric {

// Where one key lies in a row.
struct KeyField {
  Type type;
  int32_t word = 0;     // its first word
  int32_t n_words = 0;  // 0: the null type, of which there is one value
  bool in_tail = false;
  bool is_large = false;  // its offsets have 64 bits when it is put out
};

struct KeyRows {
  std::vector<KeyField> fields;
  int32_t n_words = 0;       // of a row
  int32_t n_null_words = 0;  // at its beginning
  int32_t n_tails = 0;       // strings and binary keys

  // Throws std::invalid_argument for a type that is no key.
  explicit KeyRows(const std::vector<Type>& types) {
    for (const Type& type : types) fields.push_back(field_of(type));
    const bool single = fields.size() == 1 && fields[0].n_words == 1 && !fields[0].in_tail;
    n_null_words = single ? 0 : static_cast<int32_t>((fields.size() + 63) / 64);
    n_words = n_null_words;
    for (KeyField& field : fields) {
      field.word = n_words;
      n_words += field.n_words;
      n_tails += field.in_tail;
    }
  }

  bool is_single() const { return n_null_words == 0; }  // one key of one word: words are tags

  static bool is_null(const uint64_t* row, size_t field) {
    return row[field / 64] >> (field % 64) & 1;
  }

  uint64_t tail_size(const uint64_t* row) const {
    uint64_t size = 0;
    for (const KeyField& field : fields) size += field.in_tail ? row[field.word] : 0;
    return size;
  }

 private:
  static KeyField field_of(const Type& type) {
    KeyField field;
    field.type = type;
    switch (type.layout) {
      case Layout::null: return field;
      case Layout::boolean: field.n_words = 1; return field;
      case Layout::fixed: field.n_words = (type.width + 7) / 8; return field;
      case Layout::binary: case Layout::large_binary:
        field.n_words = 1;
        field.in_tail = true;
        field.is_large = type.layout == Layout::large_binary;
        return field;
      default: throw std::invalid_argument("nested columns, views and dictionaries are no keys");
    }
  }
};

// A value's bits, one for all that are equal.
inline uint16_t one_half(uint16_t bits) {
  if ((bits & 0x7FFF) > 0x7C00) return 0x7E00;
  return (bits & 0x7FFF) == 0 ? 0 : bits;
}
inline uint32_t one_float(uint32_t bits) {
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FC00000;
  return (bits & 0x7FFFFFFF) == 0 ? 0 : bits;
}
inline uint64_t one_double(uint64_t bits) {
  if ((bits << 1) > UINT64_C(0xFFE0000000000000)) return NAN_BITS;
  return bits << 1 == 0 ? 0 : bits;
}

class KeyReader {
 public:
  KeyReader(const Type& type, const ArrowArray& array)
      : type_(type), array_(array), validity_(validity_of(type, array)) {
    if (type.layout == Layout::dictionary) {
      values_.emplace_back(type.children[0], *array.dictionary);
    }
  }

  bool may_be_null() const {
    return validity_ != nullptr || type_.layout == Layout::null || !values_.empty();
  }

  // The words themselves where the column is nothing but 64-bit integers without nulls.
  const uint8_t* plain() const {
    const bool is_word = type_.layout == Layout::fixed && type_.width == 8 &&
                         (type_.value == Value::signed_int || type_.value == Value::unsigned_int ||
                          type_.value == Value::temporal);
    return is_word && validity_ == nullptr ? bytes_of(array_, 1) + array_.offset * 8 : nullptr;
  }

  // Words of the rows [row, row + n), `stride` words apart; `tails`, where there are such, too.
  // Sets bit `bit` of a null row's `nulls`, which begin as zeros and are as far apart.
  void read(int64_t row, int64_t n, uint64_t* words, int64_t stride, const uint8_t** tails,
            int64_t tail_stride, uint64_t* nulls, int bit) const {
    if (values_.empty() && type_.layout == Layout::fixed) {
      fixed(row + array_.offset, n, words, stride);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        const bool there = one(row + i, words + i * stride, tails + i * tail_stride);
        nulls[i * stride] |= static_cast<uint64_t>(!there) << bit;
      }
      return;
    }
    if (validity_ == nullptr) return;
    const int64_t n_words = (type_.width + 7) / 8;
    for (int64_t i = 0; i < n; ++i) {
      if (bit_at(validity_, array_.offset + row + i)) continue;
      nulls[i * stride] |= UINT64_C(1) << bit;
      std::fill_n(words + i * stride, n_words, 0);
    }
  }

 private:
  struct Bytes {
    const uint8_t* data;
    uint64_t size;
  };

  // One value; false for a null, whose words are zeros.
  bool one(int64_t row, uint64_t* words, const uint8_t** tail) const {
    row += array_.offset;
    if (type_.layout == Layout::null) return false;
    if (validity_ != nullptr && !bit_at(validity_, row)) return null(words, tail);
    switch (type_.layout) {
      case Layout::boolean: words[0] = bit_at(bytes_of(array_, 1), row); return true;
      case Layout::fixed: fixed(row, 1, words, 0); return true;
      case Layout::binary: return bytes(span<int32_t>(row), words, tail);
      case Layout::large_binary: return bytes(span<int64_t>(row), words, tail);
      case Layout::view: return bytes(view(row), words, tail);
      default: return value(row, words, tail);
    }
  }

  bool null(uint64_t* words, const uint8_t** tail) const {
    const KeyReader& leaf = values_.empty() ? *this : values_[0];
    const bool wide = leaf.type_.layout == Layout::fixed;
    std::fill_n(words, wide ? (leaf.type_.width + 7) / 8 : leaf.type_.layout != Layout::null, 0);
    if (leaf.type_.value == Value::bytes && !wide) *tail = nullptr;
    return false;
  }

  static bool bytes(Bytes found, uint64_t* words, const uint8_t** tail) {
    words[0] = found.size;
    *tail = found.data;
    return true;
  }

  template <class Offset>
  Bytes span(int64_t row) const {
    const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
    return {bytes_of(array_, 2) + offsets[0], static_cast<uint64_t>(offsets[1] - offsets[0])};
  }

  Bytes view(int64_t row) const {
    const uint8_t* view = bytes_of(array_, 1) + row * 16;
    const int32_t size = load<int32_t>(view);
    const uint8_t* data = size <= 12 ? view + 4
        : bytes_of(array_, 2 + load<int32_t>(view + 8)) + load<int32_t>(view + 12);
    return {data, static_cast<uint64_t>(size)};
  }

  bool value(int64_t row, uint64_t* words, const uint8_t** tail) const {
    const uint64_t index = dictionary_index(row);
    if (index >= static_cast<uint64_t>(array_.dictionary->length)) {
      throw std::out_of_range("a dictionary index of a key is out of range");
    }
    return values_[0].one(static_cast<int64_t>(index), words, tail);
  }

  uint64_t dictionary_index(int64_t row) const {  // negative ones become too large
    const uint8_t* at = bytes_of(array_, 1) + row * type_.width;
    const bool is_signed = type_.value == Value::signed_int;
    switch (type_.width) {
      case 1: return is_signed ? static_cast<uint64_t>(load<int8_t>(at)) : load<uint8_t>(at);
      case 2: return is_signed ? static_cast<uint64_t>(load<int16_t>(at)) : load<uint16_t>(at);
      case 4: return is_signed ? static_cast<uint64_t>(load<int32_t>(at)) : load<uint32_t>(at);
      default: return load<uint64_t>(at);
    }
  }

  template <class T, class Make>
  void each(int64_t row, int64_t n, uint64_t* words, int64_t stride, Make make) const {
    const Raw<T>* in = buffer_of<T>(array_, 1) + row;
    for (int64_t i = 0; i < n; ++i) words[i * stride] = static_cast<uint64_t>(make(in[i].value));
  }

  template <class T>
  void integers(int64_t row, int64_t n, uint64_t* words, int64_t stride) const {
    each<T>(row, n, words, stride, [](T value) { return static_cast<int64_t>(value); });
  }

  void fixed(int64_t row, int64_t n, uint64_t* words, int64_t stride) const {
    switch (type_.value) {
      case Value::float16: return each<uint16_t>(row, n, words, stride, one_half);
      case Value::float32: return each<uint32_t>(row, n, words, stride, one_float);
      case Value::float64: return each<uint64_t>(row, n, words, stride, one_double);
      case Value::unsigned_int: case Value::bytes: case Value::days_ms: break;
      default:
        switch (type_.width) {
          case 1: return integers<int8_t>(row, n, words, stride);
          case 2: return integers<int16_t>(row, n, words, stride);
          case 4: return integers<int32_t>(row, n, words, stride);
          default: break;
        }
    }
    if (type_.width == 8) return each<uint64_t>(row, n, words, stride, [](auto v) { return v; });
    padded(row, n, words, stride);
  }

  void padded(int64_t row, int64_t n, uint64_t* words, int64_t stride) const {
    const uint8_t* in = bytes_of(array_, 1) + row * type_.width;
    const size_t width = static_cast<size_t>(type_.width), n_words = (width + 7) / 8;
    for (int64_t i = 0; i < n; ++i, in += width) {
      if (n_words > 0) words[i * stride + static_cast<int64_t>(n_words) - 1] = 0;
      std::memcpy(words + i * stride, in, width);
    }
  }

  const Type& type_;
  const ArrowArray& array_;
  const uint8_t* validity_;
  std::vector<KeyReader> values_;  // of a dictionary: the reader of its values
};

}  // namespace fabric
