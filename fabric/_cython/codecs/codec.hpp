// Rows in the form of messages: one value of bytes a row, to columns and back.
//
// One job: the two classes that every format implements, and what a caller without the GIL (the
// reader of a topic, a file, a socket) asks of them. Nothing here knows Python, or Arrow's C++.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "codecs/columns.hpp"

namespace fabric::codecs {

// The bytes of one value; `data` is nullptr for a null (a tombstone), never for an empty value.
struct Span {
  const uint8_t* data;
  int64_t size;
};

// A value that could not be decoded: the how-manieth since the last `finish`, and why.
struct Bad {
  int64_t row;
  std::string reason;
};

// Thrown by a codec that called Python and has left its error set.
struct PythonError : std::exception {};

// Values to columns. One thread at a time; no method needs the GIL (a codec that must ask Python
// takes it itself, so a caller may not hold a lock that such a thread waits for).
class Decoder {
 public:
  // `schema` is a struct: the wanted columns. Throws std::invalid_argument, see `Column`.
  explicit Decoder(const ArrowSchema& schema) : rows_(schema) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;

  // Append a row for each value. Null is a row of nulls. A bad value is left out of all columns and
  // noted; its neighbours are untouched. Values need not outlive the call.
  // When it throws (std::overflow_error: more than 2 GiB in a column; PythonError; std::bad_alloc)
  // only `reset` may follow.
  void append(const Span* values, int64_t n);

  // All rows since the last `finish`, as a struct array that the caller releases, and the bad ones.
  void finish(ArrowArray& out, std::vector<Bad>& bad);

  // Forget all rows since the last `finish`.
  void reset() noexcept;

  int64_t n_rows() const { return rows_.length(); }  // good ones since the last `finish`

 protected:
  Column& rows() { return rows_; }  // a struct, whose `end_struct` is for `append` to call
  std::vector<Column>& columns() { return rows_.children(); }

  // Append one row to every column and return true; or return false with `reason` (no full stop),
  // after any part of it: what was appended is taken back.
  virtual bool decode(const Span& value, std::string& reason) = 0;

 private:
  Column rows_;
  std::vector<Bad> bad_;
  std::string reason_;
  int64_t n_values_ = 0;
};

// The values of encoded rows, one after the other: value i is bytes offsets[i] … offsets[i + 1],
// or null where i is in `null_rows` (ascending).
struct Values {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> null_rows;
  Bytes data;

  int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
  void end() { offsets.push_back(data.size()); }  // of one value
  void null() { null_rows.push_back(size()), end(); }

  // Hand all over as an array that the caller releases, and begin anew: large_binary, and true,
  // above 2 GiB, else binary.
  bool finish(ArrowArray& out);
};

// Columns to values.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Append a value for each row of a struct array of the encoder's schema. Throws
  // std::invalid_argument where a row can't be represented in this format.
  virtual void encode(const ArrowArray& rows, Values& out) = 0;
};

}  // namespace fabric::codecs
