// One row as bytes: values of any plain Arrow type, one after the other (format in rows.pyx).
//
// One job: `RowTypes` hashes rows of some columns as hash.hpp hashes the columns, `rows_of` and
// `columns_of` make rows of whole columns and the way back, `RowReader` and `BytesMaker` are for
// faces that read and build rows one by one. Arrays are trusted, bytes are not: what ends too soon
// is an error. O(rows + bytes).
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "arrays.hpp"

namespace fabric {

class Holder;

constexpr uint8_t ROW_NULL = 0, ROW_VALID = 1;

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
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof value);
    return value;
  }

  int64_t length() { return number<uint32_t>(); }

 private:
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
};

// The columns of a row as one thing: a struct that is never null itself.
class RowTypes {
 public:
  RowTypes() = default;
  // Of a struct; throws std::invalid_argument where a type has an encoding (view, dictionary, ...)
  // inside.
  explicit RowTypes(const ArrowSchema& schema);

  const std::vector<Type>& types() const { return types_; }
  bool are_flat() const;  // can be keys

  // How many bytes the columns take at the front of `data`.
  int64_t front(const uint8_t* data, int64_t n) const;

  // hash_columns of these columns, from their bytes; and of `n` rows that lie one after the other.
  uint64_t hash(const uint8_t* data, int64_t n) const;
  void hashes(const uint8_t* data, const int64_t* offsets, int64_t n, uint64_t* out) const;

 private:
  std::vector<Type> types_;
};

// The hash of a row and the bytes behind it: of a key and its sub-key.
uint64_t hash_with(uint64_t row_hash, const uint8_t* data, int64_t n);

// A large_binary array is made in two steps: its offsets first, then its bytes.
class BytesMaker {
 public:
  explicit BytesMaker(int64_t n);
  BytesMaker(const BytesMaker&) = delete;
  BytesMaker& operator=(const BytesMaker&) = delete;
  ~BytesMaker();

  void add(int64_t row, int64_t size) { offsets_[row + 1] = offsets_[row] + size; }
  void add_null(int64_t row) {
    offsets_[row + 1] = offsets_[row];
    validity_[row >> 3] &= static_cast<uint8_t>(~(1u << (row & 7)));
    ++n_null_;
  }
  uint8_t* make_room();
  uint8_t* at(int64_t row) const { return data_ + offsets_[row]; }

  void finish(ArrowArray& out);

 private:
  Holder* holder_;
  int64_t n_, n_null_ = 0;
  int64_t* offsets_ = nullptr;
  uint8_t* validity_ = nullptr;
  uint8_t* data_ = nullptr;
};

// The columns of a struct array as rows, `prefix` before each of them.
void rows_of(const RowTypes& types, const ArrowArray& columns, bool canonical,
             const uint8_t* prefix, int64_t n_prefix, ArrowArray& out);

// Rows without their first `skip` bytes as the columns of a struct array; a null row is nulls.
void columns_of(const RowTypes& types, const ArrowArray& rows, int64_t skip, ArrowArray& out);

}  // namespace fabric
