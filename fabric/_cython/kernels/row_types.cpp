// Rows by their types: which types rows hold, where values end, and the hash of a row.
//
// One job: `RowTypes` of rows.hpp, for rows that are looked at where they lie.
#include "rows.hpp"

#include "hash.hpp"
#include "words.hpp"

namespace fabric {
namespace {

// Throws std::invalid_argument where a type has an encoding (view, dictionary, ...) inside.
void check_row_type(const Type& type) {
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

// Walks over the bytes of values by their types.
class TypedReader : public RowReader {
 public:
  using RowReader::RowReader;

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

  // The word of words.hpp for a value without children.
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
};

inline uint64_t row_hash(const std::vector<Type>& types, const uint8_t* data, int64_t n) {
  TypedReader reader(data, n);
  uint64_t hash = start_of(0);
  for (const Type& type : types) hash = step(hash, reader.word(type));
  return hash;
}

}  // namespace

RowTypes::RowTypes(const ArrowSchema& schema) {
  for (int64_t i = 0; i < schema.n_children; ++i) {
    types_.push_back(parse_type(*schema.children[i]));
    check_row_type(types_.back());
  }
}

bool RowTypes::are_flat() const {
  for (const Type& type : types_) {
    if (!type.children.empty() || type.value == Value::days_ms ||
        type.value == Value::months_days_ns || type.layout == Layout::structure) {
      return false;
    }
  }
  return true;
}

int64_t RowTypes::front(const uint8_t* data, int64_t n) const {
  TypedReader reader(data, n);
  for (const Type& type : types_) reader.skip(type);
  return reader.at() - data;
}

uint64_t RowTypes::hash(const uint8_t* data, int64_t n) const { return row_hash(types_, data, n); }

void RowTypes::hashes(const uint8_t* data, const int64_t* offsets, int64_t n,
                      uint64_t* out) const {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = row_hash(types_, data + offsets[i], offsets[i + 1] - offsets[i]);
  }
}

uint64_t hash_with(uint64_t row_hash, const uint8_t* data, int64_t n) {
  return step(row_hash, bytes_word(data, static_cast<uint64_t>(n)));
}

}  // namespace fabric
