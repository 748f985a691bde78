// Plain documents of JSON to columns, in one walk.
#include "codecs/json_plain.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

constexpr int SKIPPED_MAX = 256;  // documents that are not tried, after some that were not plain
constexpr uint64_t ONES = 0x0101010101010101, HIGHS = 0x8080808080808080;

// Whether one of these 8 bytes is a quote, a backslash or below a space; a byte from 0x80 on may be
// taken for one.
bool has_special(uint64_t word) {
  const uint64_t quote = word ^ ONES * '"', slash = word ^ ONES * '\\';
  return (((quote - ONES) | (slash - ONES) | (word - ONES * ' ') | word) & HIGHS) != 0;
}

bool is_special(char c) { return c == '"' || c == '\\' || static_cast<uint8_t>(c) < ' '; }

bool is_end_of_token(char c) { return c == ',' || c == '}' || c == ' '; }

}  // namespace

bool append_json_text(Column& column, std::string_view text) {
  switch (column.type().kind) {
    case Kind::decimal: return append_decimal(column, text);
    case Kind::binary: case Kind::fixed_binary: return append_base64(column, text);
    default: return append_time(column, text);
  }
}

bool append_json_number(Column& column, std::string_view token) {
  switch (column.type().kind) {
    case Kind::float16: case Kind::float32: case Kind::float64:
      if (token == "NaN" || token == "Infinity" || token == "-Infinity") {
        const char* text = token == "NaN" ? "nan" : token[0] == '-' ? "-inf" : "inf";
        return append_float(column, text);
      }
      return is_json_number(token) && append_float(column, token);
    case Kind::decimal:
      return is_json_number(token) && append_decimal(column, token);
    case Kind::date32: case Kind::date64: case Kind::time: case Kind::timestamp:
    case Kind::duration: {
      int64_t n_units = 0;
      const char* end = token.data() + token.size();
      const auto [behind, error] = std::from_chars(token.data(), end, n_units);
      return error == std::errc() && behind == end && is_json_number(token) &&
             append_units(column, n_units);
    }
    case Kind::int8: case Kind::int16: case Kind::int32: case Kind::int64: case Kind::uint8:
    case Kind::uint16: case Kind::uint32: case Kind::uint64:
      return is_json_number(token) && append_integer(column, token);
    default:
      return false;
  }
}

PlainJson::PlainJson(Column& rows) : columns_(rows.children()) {
  for (const Column& column : columns_) {
    const std::string& name = column.type().name;
    is_fit_ = is_fit_ && column.children().empty() && column.type().kind != Kind::null &&
              std::none_of(name.begin(), name.end(), is_special);
  }
}

bool PlainJson::read(const uint8_t* data, int64_t size, int64_t row) {
  if (!is_fit_) return false;
  if (n_skipped_ < std::min(n_failed_, SKIPPED_MAX)) {
    ++n_skipped_;
    return false;
  }
  at_ = reinterpret_cast<const char*>(data);
  end_ = at_ + size;
  n_skipped_ = 0;
  if (fields(row)) {
    n_failed_ = 0;
    return true;
  }
  n_failed_ = std::min(2 * n_failed_ + 1, SKIPPED_MAX);
  for (Column& column : columns_) {
    if (column.length() > row) column.truncate(row);
  }
  return false;
}

bool PlainJson::fields(int64_t row) {
  const size_t n = columns_.size();
  size_t next = 0, n_found = 0;
  if (!take('{')) return false;
  for (;;) {
    size_t at = n;
    // Nearly always it is the next column's name.
    if (next < n) {
      const std::string& name = columns_[next].type().name;
      const auto size = static_cast<int64_t>(name.size());
      if (end_ - at_ > size + 2 && *at_ == '"' && at_[size + 1] == '"' &&
          std::memcmp(at_ + 1, name.data(), name.size()) == 0) {
        at = next;
        at_ += size + 2;
      }
    }
    if (at == n) {
      std::string_view key;
      if (!text(key)) return false;
      at = find(key, next);
    }
    if (!take(':')) return false;
    if (at_ < end_ && *at_ == ' ') ++at_;
    if (at == n) {
      if (!ignored()) return false;
    } else {
      Column& column = columns_[at];
      if (column.length() > row || !value(column)) return false;  // not twice: the last one counts
      ++n_found;
      next = at + 1;
    }
    if (at_ == end_) return false;
    const char c = *at_++;
    if (c == '}') break;
    if (c != ',') return false;
    if (at_ < end_ && *at_ == ' ') ++at_;
  }
  if (at_ != end_) return false;
  if (n_found == n) return true;
  for (Column& column : columns_) {
    if (column.length() > row) continue;
    if (!column.type().is_nullable) return false;
    column.null();
  }
  return true;
}

size_t PlainJson::find(std::string_view key, size_t guess) const {
  const size_t n = columns_.size();
  for (size_t i = 0; i < n; ++i) {
    const size_t at = guess + i < n ? guess + i : guess + i - n;
    if (columns_[at].type().name == key) return at;
  }
  return n;
}

bool PlainJson::take(char c) {
  if (at_ == end_ || *at_ != c) return false;
  ++at_;
  return true;
}

// A text in quotes, without escapes.
bool PlainJson::text(std::string_view& found) {
  if (!take('"')) return false;
  const char* const from = at_;
  bool is_ascii = true;
  for (;;) {
    uint64_t word;
    while (end_ - at_ >= 8 && (std::memcpy(&word, at_, 8), !has_special(word))) at_ += 8;
    const char* const step = end_ - at_ > 8 ? at_ + 8 : end_;
    for (; at_ < step && !is_special(*at_); ++at_) is_ascii &= static_cast<uint8_t>(*at_) < 0x80;
    if (at_ == end_) return false;
    if (at_ < step) break;
  }
  if (*at_ != '"') return false;
  found = {from, static_cast<size_t>(at_++ - from)};
  return is_ascii || is_utf8(found);
}

bool PlainJson::value(Column& column) {
  if (at_ == end_) return false;
  const Kind kind = column.type().kind;
  if (*at_ == '"') {
    std::string_view found;
    if (kind == Kind::int64 || kind == Kind::float64 || !text(found)) return false;
    if (kind != Kind::text) return append_json_text(column, found);
    column.bytes(found);
    return true;
  }
  if (kind == Kind::int64) {
    if (integer(column)) return true;
  } else if (kind == Kind::float64) {
    if (real(column)) return true;
  }
  const std::string_view found = token();
  if (found == "null") {
    if (!column.type().is_nullable) return false;
    column.null();
    return true;
  }
  if (kind == Kind::boolean) {
    if (found != "true" && found != "false") return false;
    column.boolean(found == "true");
    return true;
  }
  return kind != Kind::text && append_json_number(column, found);
}

// Up to 18 digits; nothing is taken of anything else.
bool PlainJson::integer(Column& column) {
  const char* at = at_;
  const bool is_negative = *at == '-';
  at += is_negative;
  const char* const first = at;
  int64_t number = 0;
  for (; at < end_ && is_digit(*at); ++at) {
    if (at - first == 18) return false;
    number = number * 10 + (*at - '0');
  }
  if (at == first || at == end_ || (*first == '0' && at - first > 1) || !is_end_of_token(*at)) {
    return false;
  }
  at_ = at;
  column.number(is_negative ? -number : number);
  return true;
}

// Up to 15 digits, with or without a point: whole number and power of ten are exact, and so is,
// rounded once, their quotient (W. Clinger, 1990).
bool PlainJson::real(Column& column) {
  constexpr double POWERS[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const char* at = at_;
  const bool is_negative = *at == '-';
  at += is_negative;
  const char* const first = at;
  int64_t number = 0;
  for (; at < end_ && is_digit(*at) && at - first < 15; ++at) number = number * 10 + (*at - '0');
  int64_t n_digits = at - first, n_decimals = 0;
  if (n_digits == 0 || (*first == '0' && n_digits > 1) || at == end_) return false;
  if (*at == '.') {
    const char* const point = at++;
    for (; at < end_ && is_digit(*at) && n_digits < 15; ++at, ++n_digits) {
      number = number * 10 + (*at - '0');
    }
    n_decimals = at - point - 1;
    if (n_decimals == 0 || at == end_) return false;
  }
  if (!is_end_of_token(*at)) return false;
  at_ = at;
  const double size = static_cast<double>(number) / POWERS[n_decimals];
  column.number(is_negative ? -size : size);
  return true;
}

// A scalar that no column is for: it must be JSON all the same.
bool PlainJson::ignored() {
  std::string_view found;
  if (at_ < end_ && *at_ == '"') return text(found);
  found = token();
  return found == "null" || found == "true" || found == "false" || is_json_number(found);
}

// What lies before the next comma, bracket or space.
std::string_view PlainJson::token() {
  const char* const from = at_;
  while (at_ < end_ && !is_end_of_token(*at_)) ++at_;
  return {from, static_cast<size_t>(at_ - from)};
}

}  // namespace fabric::codecs
