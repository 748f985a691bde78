// Values written as texts: as Arrow's casts to string write them, and Python's json.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

constexpr int64_t FIRST_DAY = -12'687'428, LAST_DAY = 11'248'737;  // years -32767 … 32767

template <class T>
void write_integer(T value, Bytes& out) {
  char* at = out.room(24);
  out.set_size(out.size() + (std::to_chars(at, at + 24, value).ptr - at));
}

// A number of at most four decimals, as amounts are, and 15 digits: true if it was one. Decimals of
// so few digits are told apart by doubles, so what gives the same double back has the shortest
// digits; a third of the time of `to_chars`.
bool put_decimals(double value, char*& at) {
  constexpr double SCALE = 1e4, MOST = 1e10;
  const double size = std::fabs(value);
  if (!(size < MOST)) return false;
  const auto scaled = static_cast<uint64_t>(size * SCALE + 0.5);
  if (static_cast<double>(scaled) / SCALE != size) return false;
  if (std::signbit(value)) *at++ = '-';
  at = std::to_chars(at, at + 20, scaled / 10'000).ptr;
  auto rest = static_cast<uint32_t>(scaled % 10'000);
  int n = 4;
  if (rest == 0) return true;
  for (; rest % 10 == 0; rest /= 10) --n;
  *at = '.';
  for (char* digit = at + n; digit > at; rest /= 10) *digit-- = static_cast<char>('0' + rest % 10);
  at += n + 1;
  return true;
}

// Shortest digits, d.ddd…e±x, as `1.25e-7` or, near 1, with all zeros written out.
template <class T>
bool write_float(T value, bool is_plain, Bytes& out) {
  constexpr int LEAST = -6, MOST = 10;  // decimal exponents that are written out
  if (!std::isfinite(value)) {
    if (!is_plain) return false;
    if (std::isnan(value)) out.add("nan", 3);
    else if (value < 0) out.add("-inf", 4);
    else out.add("inf", 3);
    return true;
  }
  char* at = out.room(64);
  char* end;
  const T size = std::fabs(value);
  if (sizeof(T) == 8 && size >= T(1e-6) && size < T(1e10)) {
    end = at;
    if (!put_decimals(static_cast<double>(value), end)) {
      end = std::to_chars(at, at + 64, value, std::chars_format::fixed).ptr;
    }
    if (!is_plain && std::find(at, end, '.') == end) *end++ = '.', *end++ = '0';
    out.set_size(out.size() + (end - at));
    return true;
  }
  char text[64];
  const char* behind = std::to_chars(text, text + 64, value, std::chars_format::scientific).ptr;
  const char* digit = text;
  if (*digit == '-') *at++ = *digit++;
  const char* mark = std::find(digit, behind, 'e');
  int exponent = 0;
  std::from_chars(mark[1] == '+' ? mark + 2 : mark + 1, behind, exponent);
  char digits[32];
  int n = 0;
  for (; digit < mark; ++digit) {
    if (*digit != '.') digits[n++] = *digit;
  }
  if (exponent < LEAST || exponent >= MOST) {
    *at++ = digits[0];
    if (n > 1) *at++ = '.';
    at = std::copy(digits + 1, digits + n, at);
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    at = std::to_chars(at, at + 8, std::abs(exponent)).ptr;
  } else if (exponent < 0) {
    *at++ = '0', *at++ = '.';
    at = std::fill_n(at, -exponent - 1, '0');
    at = std::copy(digits, digits + n, at);
  } else {
    for (int i = 0; i <= exponent; ++i) *at++ = i < n ? digits[i] : '0';
    if (n > exponent + 1) {
      *at++ = '.';
      at = std::copy(digits + exponent + 1, digits + n, at);
    } else if (!is_plain) {
      *at++ = '.', *at++ = '0';
    }
  }
  out.set_size(at - out.data());
  return true;
}

float float_of(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, fraction = half & 0x3FF;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) / 16777216.0f;  // in units of 2^-24
    return sign ? -size : size;
  }
  const uint32_t biased = exponent == 31 ? 0xFF : exponent + 112;
  const uint32_t bits = sign | biased << 23 | fraction << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void write_decimal(const uint8_t* data, const FieldType& type, Bytes& out) {
  constexpr uint64_t CHUNK = 10'000'000'000'000'000'000u;  // 19 digits at a time
  uint64_t words[4];
  const bool is_negative = (data[type.width - 1] & 0x80) != 0;
  std::memset(words, is_negative ? 0xFF : 0, sizeof words);
  std::memcpy(words, data, static_cast<size_t>(type.width));
  if (is_negative) {
    unsigned __int128 carry = 1;
    for (uint64_t& word : words) {
      carry += ~word;
      word = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }
  char text[128];
  char* const end = text + sizeof text;
  char* at = end;
  int n_words = 4;
  for (;;) {
    while (n_words > 0 && words[n_words - 1] == 0) --n_words;
    if (n_words == 0) break;
    unsigned __int128 rest = 0;
    for (int i = n_words; i-- > 0;) {
      rest = rest << 64 | words[i];
      words[i] = static_cast<uint64_t>(rest / CHUNK);
      rest %= CHUNK;
    }
    auto chunk = static_cast<uint64_t>(rest);
    for (int i = 0; i < 19; ++i, chunk /= 10) *--at = static_cast<char>('0' + chunk % 10);
  }
  at = std::find_if(at, end, [](char c) { return c != '0'; });
  const int64_t n_digits = end - at;
  if (is_negative) out.add('-');
  if (type.scale <= 0) {
    if (n_digits == 0) return out.add('0');
    out.add(at, n_digits);
    for (int32_t i = 0; i < -type.scale; ++i) out.add('0');
    return;
  }
  const int64_t n_whole = n_digits - type.scale;
  if (n_whole > 0) out.add(at, n_whole);
  else out.add('0');
  out.add('.');
  for (int64_t i = n_whole; i < 0; ++i) out.add('0');
  const int64_t n_fraction = std::min<int64_t>(n_digits, type.scale);
  out.add(end - n_fraction, n_fraction);
}

char* put_digits(char* at, int64_t value, int n) {
  for (int i = n; i-- > 0; value /= 10) at[i] = static_cast<char>('0' + value % 10);
  return at + n;
}

// The date of a day since 1970 (H. Hinnant: civil_from_days).
char* put_date(char* at, int64_t days) {
  days += 719'468;
  const int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const int64_t of_era = days - era * 146'097;
  const int64_t year_of_era =
      (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * of_year + 2) / 153;
  const int64_t month = shifted + (shifted < 10 ? 3 : -9);
  int64_t year = year_of_era + era * 400 + (month <= 2);
  if (year < 0) *at++ = '-', year = -year;
  at = put_digits(at, year, year > 9999 ? 5 : 4);
  *at++ = '-';
  at = put_digits(at, month, 2);
  *at++ = '-';
  return put_digits(at, of_year - (153 * shifted + 2) / 5 + 1, 2);
}

char* put_clock(char* at, int64_t units, int64_t per_second) {
  const int64_t seconds = units / per_second;
  at = put_digits(at, seconds / 3600, 2);
  *at++ = ':';
  at = put_digits(at, seconds / 60 % 60, 2);
  *at++ = ':';
  at = put_digits(at, seconds % 60, 2);
  if (per_second == 1) return at;
  *at++ = '.';
  const int n_digits = per_second == 1000 ? 3 : per_second == 1'000'000 ? 6 : 9;
  return put_digits(at, units % per_second, n_digits);
}

[[noreturn]] void refuse(int64_t value, const FieldType& type) {
  throw std::invalid_argument("column '" + type.name + "': " + std::to_string(value) + " of type " +
                              type.shown + " can't be represented in ISO 8601");
}

void write_day(int64_t days, int64_t value, const FieldType& type, Bytes& out) {
  if (days < FIRST_DAY || days > LAST_DAY) refuse(value, type);
  char* at = out.room(16);
  out.set_size(out.size() + (put_date(at, days) - at));
}

void write_timestamp(int64_t value, const FieldType& type, bool is_plain, Bytes& out) {
  const int64_t per_day = DAY_S * type.per_second;
  const int64_t days = value / per_day - (value % per_day < 0);
  if (days < FIRST_DAY || days > LAST_DAY) refuse(value, type);
  char* const begin = out.room(48);
  char* at = put_date(begin, days);
  *at++ = is_plain ? ' ' : 'T';
  at = put_clock(at, value - days * per_day, type.per_second);
  if (type.has_zone) *at++ = 'Z';
  out.set_size(out.size() + (at - begin));
}

void write_time(int64_t value, const FieldType& type, Bytes& out) {
  if (value < 0 || value >= DAY_S * type.per_second) refuse(value, type);
  char* const begin = out.room(24);
  out.set_size(out.size() + (put_clock(begin, value, type.per_second) - begin));
}

template <class T>
T value_at(const ArrowArray& array, int64_t row) {
  return buffer_of<T>(array, 1)[row];
}

}  // namespace

bool write_text(const FieldType& type, const ArrowArray& array, int64_t row, Bytes& out,
                bool is_plain) {
  switch (type.kind) {
    case Kind::null: return false;
    case Kind::boolean:
      if (bit_at(bytes_of(array, 1), row)) out.add("true", 4);
      else out.add("false", 5);
      return true;
    case Kind::int8: write_integer(value_at<int8_t>(array, row), out); return true;
    case Kind::int16: write_integer(value_at<int16_t>(array, row), out); return true;
    case Kind::int32: write_integer(value_at<int32_t>(array, row), out); return true;
    case Kind::int64: case Kind::duration:
      write_integer(value_at<int64_t>(array, row), out);
      return true;
    case Kind::uint8: write_integer(value_at<uint8_t>(array, row), out); return true;
    case Kind::uint16: write_integer(value_at<uint16_t>(array, row), out); return true;
    case Kind::uint32: write_integer(value_at<uint32_t>(array, row), out); return true;
    case Kind::uint64: write_integer(value_at<uint64_t>(array, row), out); return true;
    case Kind::float16:
      return write_float(float_of(value_at<uint16_t>(array, row)), is_plain, out);
    case Kind::float32: return write_float(value_at<float>(array, row), is_plain, out);
    case Kind::float64: return write_float(value_at<double>(array, row), is_plain, out);
    case Kind::decimal:
      write_decimal(bytes_of(array, 1) + row * type.width, type, out);
      return true;
    case Kind::date32: {
      const int32_t days = value_at<int32_t>(array, row);
      write_day(days, days, type, out);
      return true;
    }
    case Kind::date64: {
      const int64_t value = value_at<int64_t>(array, row);
      write_day(value / (DAY_S * 1000), value, type, out);
      return true;
    }
    case Kind::time:
      write_time(type.width == 4 ? value_at<int32_t>(array, row) : value_at<int64_t>(array, row),
                 type, out);
      return true;
    case Kind::timestamp:
      write_timestamp(value_at<int64_t>(array, row), type, is_plain, out);
      return true;
    case Kind::text: case Kind::binary: case Kind::fixed_binary: {
      const std::string_view bytes = bytes_at(type, array, row);
      const auto n = static_cast<int64_t>(bytes.size());
      if (is_plain || type.kind == Kind::text) out.add(bytes.data(), n);
      else write_base64(reinterpret_cast<const uint8_t*>(bytes.data()), n, out);
      return true;
    }
    default:
      return false;
  }
}

std::string_view bytes_at(const FieldType& type, const ArrowArray& array, int64_t row) {
  if (type.kind == Kind::fixed_binary) {
    const auto* begin = static_cast<const char*>(array.buffers[1]) + row * type.width;
    return {begin, static_cast<size_t>(type.width)};
  }
  int64_t begin, end;
  if (type.is_large) begin = value_at<int64_t>(array, row), end = value_at<int64_t>(array, row + 1);
  else begin = value_at<int32_t>(array, row), end = value_at<int32_t>(array, row + 1);
  const auto* data = static_cast<const char*>(array.buffers[2]);
  return end > begin ? std::string_view(data + begin, static_cast<size_t>(end - begin)) : "";
}

void write_base64(const uint8_t* data, int64_t n, Bytes& out) {
  constexpr char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char* to = out.room((n + 2) / 3 * 4);
  for (int64_t i = 0; i < n; i += 3) {
    uint32_t word = static_cast<uint32_t>(data[i]) << 16;
    if (i + 1 < n) word |= static_cast<uint32_t>(data[i + 1]) << 8;
    if (i + 2 < n) word |= data[i + 2];
    *to++ = ALPHABET[word >> 18];
    *to++ = ALPHABET[word >> 12 & 63];
    *to++ = i + 1 < n ? ALPHABET[word >> 6 & 63] : '=';
    *to++ = i + 2 < n ? ALPHABET[word & 63] : '=';
  }
  out.set_size(out.size() + (n + 2) / 3 * 4);
}

}  // namespace fabric::codecs
