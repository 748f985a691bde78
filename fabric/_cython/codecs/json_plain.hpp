// JSON documents as nearly all are: one object of scalars, written without escapes or line breaks.
//
// One job: `PlainJson`, which reads those in one walk, in two thirds of the time of a parser that
// finds the structure first, and leaves all others to it; and the scalars that both read alike.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "codecs/columns.hpp"

namespace fabric::codecs {

// Append the value that a token in quotes, or a number, is in a column that is not of int64,
// float64, text or bool; false, with nothing appended, where it does not fit.
bool append_json_text(Column& column, std::string_view text);
bool append_json_number(Column& column, std::string_view token);

class PlainJson {
 public:
  // `rows` is a struct; it must outlive this.
  explicit PlainJson(Column& rows);

  // Append a row to each column of `rows`, which has `row` of them, and return true. False, with
  // nothing appended: the document is bad, or has something that is not for here. All that is read
  // here is JSON, and means what it means to any parser. Nothing behind `size` bytes is looked at.
  bool read(const uint8_t* data, int64_t size, int64_t row);

 private:
  bool fields(int64_t row);
  size_t find(std::string_view key, size_t guess) const;
  bool text(std::string_view& found);
  bool value(Column& column);
  bool integer(Column& column);
  bool real(Column& column);
  bool ignored();
  std::string_view token();
  bool take(char c);

  std::vector<Column>& columns_;
  bool is_fit_ = true;  // all names can be written without escapes, all columns hold scalars
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int n_failed_ = 0, n_skipped_ = 0;  // in a row, since the last that failed
};

}  // namespace fabric::codecs
