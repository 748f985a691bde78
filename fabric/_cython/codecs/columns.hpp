// Columns that grow a row at a time, of any type that rows are decoded into.
//
// One job: `Column`, a node of a tree that mirrors an Arrow schema, with verbs to append one value,
// to set it back to fewer rows, and to hand what it holds over by the Arrow C data interface. What
// the bytes of a value mean is the codec's. Validity is kept from the first null on.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"

namespace fabric::codecs {

// Bytes that grow; they are malloc's, so that they can be handed over without a copy.
class Bytes {
 public:
  Bytes() = default;
  Bytes(Bytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(data_); }

  char* data() { return data_; }
  const char* data() const { return data_; }
  int64_t size() const { return size_; }
  void set_size(int64_t size) { size_ = size; }  // at most what was asked for by `room`

  // Room for `n` more bytes, behind those that are there; throws std::bad_alloc.
  char* room(int64_t n) {
    if (__builtin_expect(n > capacity_ - size_, 0)) grow(n);
    return data_ + size_;
  }

  void add(const void* data, int64_t n) {
    char* to = room(n);
    if (n > 0) std::memcpy(to, data, static_cast<size_t>(n));
    size_ += n;
  }

  template <class T>
  void add(T value) {
    std::memcpy(room(sizeof value), &value, sizeof value);
    size_ += static_cast<int64_t>(sizeof value);
  }

  void zeros(int64_t n) {
    std::memset(room(n), 0, static_cast<size_t>(n));
    size_ += n;
  }

  template <class T>
  T at(int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }

  // The bytes, which the caller frees; never null. Those behind the end are given back.
  char* take();

 private:
  void grow(int64_t n);

  char* data_ = nullptr;
  int64_t size_ = 0, capacity_ = 0;
};

enum class Kind : uint8_t {
  null, boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32,
  float64, decimal, text, binary, fixed_binary, date32, date64, time, timestamp, duration,
  interval, list, fixed_list, structure, map,
};

// How a type of the schema is to be read and written; `children` of the column say what is inside.
struct FieldType {
  Kind kind = Kind::null;
  bool is_nullable = true;
  bool is_large = false;        // text, binary, list: 64-bit offsets
  bool has_zone = false;        // timestamp
  int32_t width = 0;            // bytes of a fixed value; elements of a fixed-size list
  int32_t precision = 0;        // decimal
  int32_t scale = 0;            // decimal
  int64_t per_second = 1;       // time, timestamp, duration: units in a second
  std::string name;             // of the field
  std::string shown;            // the type as users know it: "int64", "timestamp[ms, tz=UTC]"
};

// An array of malloc'ed buffers (room for 3, which the caller sets) and children; a release frees
// them. Throws std::bad_alloc.
void make_array(ArrowArray& out, int64_t length, int64_t n_children);

// One column and what is inside it. A verb that appends counts the row; lists count theirs with
// `end_list`, structs with `end_struct`, after their children have got theirs.
class Column {
 public:
  // Throws std::invalid_argument for a type without a place here: views, dictionaries, run ends,
  // unions (callers decode into the flat type and cast).
  explicit Column(const ArrowSchema& schema);
  Column(Column&&) = default;

  const FieldType& type() const { return type_; }
  int64_t length() const { return length_; }
  std::vector<Column>& children() { return children_; }  // map: one struct of key and value
  const std::vector<Column>& children() const { return children_; }

  // A value of a fixed width: T has `type().width` bytes. Never for booleans.
  template <class T>
  void number(T value) {
    data_.add(value);
    valid();
  }
  void fixed(const void* value) {  // `type().width` bytes
    data_.add(value, type_.width);
    valid();
  }
  void boolean(bool value) {
    if ((length_ & 7) == 0) data_.add<uint8_t>(0);
    data_.data()[length_ >> 3] |= static_cast<char>(value << (length_ & 7));
    valid();
  }

  // A text or binary value; or room for up to `n` bytes, of which `end_bytes` says how many it has.
  void bytes(const void* data, int64_t n) {
    char* to = bytes_room(n);
    if (n > 0) std::memcpy(to, data, static_cast<size_t>(n));
    end_bytes(n);
  }
  void bytes(std::string_view text) { bytes(text.data(), static_cast<int64_t>(text.size())); }
  char* bytes_room(int64_t n) {
    check_room(data_.size() + n);
    return data_.room(n + 1);  // never null
  }
  void end_bytes(int64_t n) {
    data_.set_size(data_.size() + n);
    end_offset(data_.size());
  }

  // Lists and maps: all values appended to the child since the last row are this one's.
  void end_list() {
    check_room(children_[0].length());
    end_offset(children_[0].length());
  }
  // Structs and fixed-size lists: the children have got theirs.
  void end_struct() { valid(); }

  // Null, whatever is inside; of a field that can't be null a zero (below a null that holds it).
  void null();

  // Set back to the first `length` rows, and what lies below with it. O(rows taken back).
  void truncate(int64_t length);

  // Hand over all rows and begin anew. `out` must be released; throws std::bad_alloc.
  void finish(ArrowArray& out);

 private:
  void valid() {
    if (__builtin_expect(n_nulls_ > 0, 0)) bit(true);
    ++length_;
  }
  void end_offset(int64_t end) {
    if (type_.is_large) offsets_.add<int64_t>(end);
    else offsets_.add<int32_t>(static_cast<int32_t>(end));
    valid();
  }
  void check_room(int64_t end) const {
    if (__builtin_expect(end > INT32_MAX, 0) && !type_.is_large) too_large();
  }
  [[noreturn]] void too_large() const;
  void bit(bool is_valid);
  void blank();
  int64_t offset_at(int64_t i) const {
    return type_.is_large ? offsets_.at<int64_t>(i) : offsets_.at<int32_t>(i);
  }
  void begin();

  FieldType type_;
  std::vector<Column> children_;
  int64_t length_ = 0, n_nulls_ = 0;
  Bytes validity_, offsets_, data_;
};

// All columns and what is inside of them, depth first: a column's number is its place.
void number_columns(std::vector<Column>& columns, std::vector<Column*>& out);

}  // namespace fabric::codecs
