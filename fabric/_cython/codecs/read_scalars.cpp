// Texts read as values: numbers of every width, decimals, times, base64.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "codecs/integers.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

// Walks over a text: each `take` says whether what is next is that, and then is behind it.
struct Reader {
  const char* at;
  const char* end;

  explicit Reader(std::string_view text) : at(text.data()), end(at + text.size()) {}
  bool done() const { return at == end; }
  bool take(char c) {
    if (at == end || *at != c) return false;
    ++at;
    return true;
  }
  // Exactly `n` digits.
  bool take_digits(int n, int32_t& out) {
    if (end - at < n) return false;
    out = 0;
    for (int i = 0; i < n; ++i, ++at) {
      if (!is_digit(*at)) return false;
      out = out * 10 + (*at - '0');
    }
    return true;
  }
  int64_t skip_digits() {
    const char* from = at;
    while (at < end && is_digit(*at)) ++at;
    return at - from;
  }
};

template <class Wide>
bool append_any_integer(Column& column, Wide value) {
  switch (column.type().kind) {
    case Kind::int8: return append_fitting<int8_t>(column, value);
    case Kind::int16: return append_fitting<int16_t>(column, value);
    case Kind::int32: return append_fitting<int32_t>(column, value);
    case Kind::int64: return append_fitting<int64_t>(column, value);
    case Kind::uint8: return append_fitting<uint8_t>(column, value);
    case Kind::uint16: return append_fitting<uint16_t>(column, value);
    case Kind::uint32: return append_fitting<uint32_t>(column, value);
    case Kind::uint64: return append_fitting<uint64_t>(column, value);
    default: return false;
  }
}

// The half float nearest to a float, ties to even; infinite where it is too large.
uint16_t half_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000) return sign | 0x7E00;                        // NaN
  if (bits >= 0x477FF000) return sign | 0x7C00;                       // rounds to 65536 or more
  if (bits < 0x38800000) {                                            // below 2^-14: subnormal
    const float scaled = std::fabs(value) * 16777216.0f;              // in units of 2^-24, exact
    return sign | static_cast<uint16_t>(std::nearbyintf(scaled));
  }
  bits += 0xFFF + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000) >> 13);
}

// Days since 1970-01-01 of a date of the Gregorian calendar, which is continued to both sides
// (H. Hinnant, chrono-compatible low-level date algorithms: days_from_civil).
int64_t days_of(int64_t year, int32_t month, int32_t day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719'468;
}

bool take_date(Reader& reader, int64_t& days) {
  constexpr int32_t LONGEST[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int32_t year, month, day;
  if (!reader.take_digits(4, year) || !reader.take('-') || !reader.take_digits(2, month) ||
      !reader.take('-') || !reader.take_digits(2, day)) {
    return false;
  }
  if (month < 1 || month > 12 || day < 1 || day > LONGEST[month - 1]) return false;
  const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month == 2 && day == 29 && !is_leap) return false;
  days = days_of(year, month, day);
  return true;
}

// hh, hh:mm, hh:mm:ss or hh:mm:ss.f with as many digits as the unit has, in units.
bool take_clock(Reader& reader, int64_t per_second, bool hours_do, int64_t& units) {
  int32_t hour, minute = 0, second = 0;
  if (!reader.take_digits(2, hour) || hour > 23) return false;
  int64_t fraction = 0;
  if (reader.take(':')) {
    if (!reader.take_digits(2, minute) || minute > 59) return false;
    if (reader.take(':')) {
      if (!reader.take_digits(2, second) || second > 59) return false;
      if (reader.take('.')) {
        const char* from = reader.at;
        if (reader.skip_digits() == 0) return false;
        int64_t unit = per_second;
        for (; from < reader.at; ++from) {
          if (unit == 1) return false;  // finer than the type
          unit /= 10;
          fraction += (*from - '0') * unit;
        }
      }
    }
  } else if (!hours_do) {
    return false;
  }
  units = (hour * 3600 + minute * 60 + second) * per_second + fraction;
  return true;
}

// Z, +hh, +hhmm or +hh:mm, in seconds to the east.
bool take_zone(Reader& reader, int64_t& seconds) {
  seconds = 0;
  if (reader.take('Z')) return true;
  const bool is_west = reader.take('-');
  if (!is_west && !reader.take('+')) return false;
  int32_t hours, minutes = 0;
  if (!reader.take_digits(2, hours) || hours > 23) return false;
  if (!reader.done()) {
    reader.take(':');
    if (!reader.take_digits(2, minutes) || minutes > 59) return false;
  }
  seconds = (hours * 3600 + minutes * 60) * (is_west ? -1 : 1);
  return true;
}

bool append_timestamp(Column& column, Reader reader) {
  const FieldType& type = column.type();
  int64_t days, clock = 0, east_s = 0, value;
  if (!take_date(reader, days)) return false;
  if (!reader.done()) {
    if (!reader.take('T') && !reader.take(' ')) return false;
    if (!take_clock(reader, type.per_second, true, clock)) return false;
    if (type.has_zone && !take_zone(reader, east_s)) return false;
  } else if (type.has_zone) {
    return false;  // midnight where?
  }
  if (!reader.done()) return false;
  const int64_t seconds = days * DAY_S - east_s;
  // The clock counts from the second that it belongs to: -1 s + 0.5 s fits where -1 s may not.
  const auto wide = static_cast<__int128>(seconds) * type.per_second + clock;
  value = static_cast<int64_t>(wide);
  if (value != wide) return false;
  column.number(value);
  return true;
}

bool is_word(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] | 0x20) != lower[i]) return false;
  }
  return true;
}

bool append_boolean(Column& column, std::string_view text) {
  const bool is_true = text == "1" || is_word(text, "true");
  if (!is_true && text != "0" && !is_word(text, "false")) return false;
  column.boolean(is_true);
  return true;
}

template <class T>
bool read_float(std::string_view text, T& value) {
  const char* at = text.data();
  const char* end = at + text.size();
  if (at == end || *at == '+') return false;
  const auto [behind, error] = std::from_chars(at, end, value);
  if (behind != end) return false;
  if (error == std::errc::result_out_of_range) {  // too small is zero, as everywhere
    const double wide = std::strtod(std::string(text).c_str(), nullptr);
    if (std::fabs(wide) > 1) return false;
    value = static_cast<T>(wide);
    return true;
  }
  return error == std::errc();
}

}  // namespace

bool is_json_number(std::string_view text) {
  Reader reader(text);
  reader.take('-');
  if (!reader.take('0') && reader.skip_digits() == 0) return false;
  if (reader.take('.') && reader.skip_digits() == 0) return false;
  if (!reader.done()) {
    if (!reader.take('e') && !reader.take('E')) return false;
    if (!reader.take('-')) reader.take('+');
    if (reader.skip_digits() == 0) return false;
  }
  return reader.done();
}

bool append_signed(Column& column, int64_t value) { return append_any_integer(column, value); }
bool append_unsigned(Column& column, uint64_t value) { return append_any_integer(column, value); }

bool append_integer(Column& column, std::string_view text) {
  const char* end = text.data() + text.size();
  if (!text.empty() && text[0] == '-') {
    int64_t value;
    const auto [behind, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && behind == end && append_signed(column, value);
  }
  uint64_t value;
  const auto [behind, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && behind == end && append_unsigned(column, value);
}

bool append_float(Column& column, std::string_view text) {
  if (column.type().kind == Kind::float64) {
    double value;
    if (!read_float(text, value)) return false;
    column.number(value);
    return true;
  }
  float value;
  if (!read_float(text, value)) return false;
  if (column.type().kind == Kind::float32) {
    column.number(value);
    return true;
  }
  const uint16_t half = half_of(value);
  if ((half & 0x7FFF) == 0x7C00 && !std::isinf(value)) return false;
  column.number(half);
  return true;
}

bool append_decimal(Column& column, std::string_view text) {
  constexpr int64_t FARTHEST = 100'000;  // behind any digit that a type can have
  const FieldType& type = column.type();
  Reader reader(text);
  const bool is_negative = reader.take('-');
  if (!is_negative) reader.take('+');
  std::string digits;
  const char* from = reader.at;
  reader.skip_digits();
  digits.append(from, reader.at);
  int64_t exponent = 0;
  if (reader.take('.')) {
    from = reader.at;
    exponent = -reader.skip_digits();
    digits.append(from, reader.at);
  }
  if (digits.empty()) return false;
  if (!reader.done()) {
    if (!reader.take('e') && !reader.take('E')) return false;
    const bool is_down = reader.take('-');
    if (!is_down) reader.take('+');
    from = reader.at;
    if (reader.skip_digits() == 0 || !reader.done()) return false;
    int64_t moved = 0;
    for (; from < reader.at; ++from) moved = std::min(moved * 10 + (*from - '0'), FARTHEST);
    exponent += is_down ? -moved : moved;
  }
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, first);
  exponent += type.scale;  // of the last digit, in units of the type
  while (exponent < 0 && !digits.empty() && digits.back() == '0') digits.pop_back(), ++exponent;
  Int256 value{};
  if (!digits.empty()) {
    const auto n_digits = static_cast<int64_t>(digits.size()) + exponent;
    if (exponent < 0 || n_digits > type.precision) return false;
    digits.append(static_cast<size_t>(exponent), '0');
    for (const char digit : digits) {
      if (!value.times_plus(10, static_cast<uint64_t>(digit - '0'))) return false;
    }
    if (is_negative) value.negate();
  }
  column.fixed(value.words);  // little endian: the low bytes come first
  return true;
}

bool append_time(Column& column, std::string_view text) {
  Reader reader(text);
  int64_t value;
  switch (column.type().kind) {
    case Kind::date32:
      if (!take_date(reader, value) || !reader.done()) return false;
      column.number(static_cast<int32_t>(value));
      return true;
    case Kind::date64:
      if (!take_date(reader, value) || !reader.done()) return false;
      column.number(value * DAY_S * 1000);
      return true;
    case Kind::time:
      if (!take_clock(reader, column.type().per_second, false, value) || !reader.done()) {
        return false;
      }
      return append_units(column, value);
    case Kind::timestamp:
      return append_timestamp(column, reader);
    default:
      return false;
  }
}

bool append_units(Column& column, int64_t n_units) {
  const FieldType& type = column.type();
  if (type.kind == Kind::time && (n_units < 0 || n_units >= DAY_S * type.per_second)) return false;
  if (type.kind == Kind::date64 && n_units % (DAY_S * 1000) != 0) return false;
  if (type.width == 8) {
    column.number(n_units);
    return true;
  }
  return append_fitting<int32_t>(column, n_units);
}

bool append_base64(Column& column, std::string_view text) {
  static const auto VALUES = [] {
    struct { int8_t of[256]; } made;
    std::memset(made.of, -1, sizeof made.of);
    const char* alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int8_t i = 0; i < 64; ++i) made.of[static_cast<uint8_t>(alphabet[i])] = i;
    return made;
  }();
  const auto n = static_cast<int64_t>(text.size());
  if (n % 4 != 0) return false;
  const int64_t n_pads = n == 0 || text[n - 1] != '=' ? 0 : text[n - 2] == '=' ? 2 : 1;
  const int64_t n_bytes = n / 4 * 3 - n_pads;
  const FieldType& type = column.type();
  if (type.kind == Kind::fixed_binary && n_bytes != type.width) return false;
  Bytes own;
  char* to = type.kind == Kind::fixed_binary ? own.room(n / 4 * 3 + 1)
                                             : column.bytes_room(n / 4 * 3);
  char* const begin = to;
  for (int64_t i = 0; i < n; i += 4) {
    uint32_t word = 0;
    for (int64_t k = i; k < i + 4; ++k) {
      const bool is_pad = k >= n - n_pads;
      const int8_t value = is_pad ? 0 : VALUES.of[static_cast<uint8_t>(text[k])];
      if (value < 0) return false;
      word = word << 6 | static_cast<uint32_t>(value);
    }
    *to++ = static_cast<char>(word >> 16);
    *to++ = static_cast<char>(word >> 8);
    *to++ = static_cast<char>(word);
  }
  if (type.kind == Kind::fixed_binary) column.fixed(begin);
  else column.end_bytes(n_bytes);
  return true;
}

bool append_text(Column& column, std::string_view text, bool is_plain) {
  switch (column.type().kind) {
    case Kind::boolean:
      return append_boolean(column, text);
    case Kind::float16: case Kind::float32: case Kind::float64:
      return append_float(column, text);
    case Kind::decimal:
      return append_decimal(column, text);
    case Kind::text:
      column.bytes(text);
      return true;
    case Kind::binary:
      if (!is_plain) return append_base64(column, text);
      column.bytes(text);
      return true;
    case Kind::fixed_binary:
      if (!is_plain) return append_base64(column, text);
      if (static_cast<int64_t>(text.size()) != column.type().width) return false;
      column.fixed(text.data());
      return true;
    case Kind::date32: case Kind::date64: case Kind::time: case Kind::timestamp:
      return append_time(column, text);
    case Kind::duration: {
      int64_t n_units;
      const char* end = text.data() + text.size();
      const auto [behind, error] = std::from_chars(text.data(), end, n_units);
      return error == std::errc() && behind == end && append_units(column, n_units);
    }
    default:
      return append_integer(column, text);
  }
}

}  // namespace fabric::codecs
