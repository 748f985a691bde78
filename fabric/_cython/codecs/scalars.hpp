// Single values as text: how they are read, and how they are written.
//
// One job: the texts that JSON, CSV and plain lines have in common. What is read here means what
// Arrow's own parsers of files make of it; nothing is rounded in silence, and what does not fit is
// refused. Times are ISO 8601. No allocation but for `Bytes`, no locale, O(length).
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "codecs/columns.hpp"

namespace fabric::codecs {

constexpr int64_t DAY_S = 86'400;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether bytes are UTF-8, by the table of Unicode 15, section 3.9 (no surrogates, nothing
// overlong, nothing over U+10FFFF). Eight bytes a step while they are ASCII: for short texts.
inline bool is_utf8(const uint8_t* at, int64_t size) {
  const uint8_t* const end = at + size;
  while (at < end) {
    if (end - at >= 8) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        at += 8;
        continue;
      }
    }
    const uint8_t lead = *at++;
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const int n = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (end - at < n) return false;
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[0] < low || at[0] > high) return false;
    for (int k = 1; k < n; ++k) {
      if ((at[k] & 0xC0) != 0x80) return false;
    }
    at += n;
  }
  return true;
}

// The same by simdjson.
bool is_utf8(std::string_view text);

// Whether `text` is a number as JSON has it.
bool is_json_number(std::string_view text);

// Append the value of type `column.type()` that `text` is, whatever scalar it is, and return true;
// or return false with nothing appended. Bytes are base64, or, when `is_plain`, as they are.
// Durations are numbers of their unit; "nan" and "inf" are floats.
bool append_text(Column& column, std::string_view text, bool is_plain = false);

// The same for one kind of value each.
bool append_integer(Column& column, std::string_view text);
bool append_float(Column& column, std::string_view text);
bool append_decimal(Column& column, std::string_view text);
bool append_time(Column& column, std::string_view text);  // dates, times, timestamps: ISO 8601
bool append_units(Column& column, int64_t n_units);       // those, and durations: by their number
bool append_base64(Column& column, std::string_view text);
bool append_signed(Column& column, int64_t value);        // any integer type, within its range
bool append_unsigned(Column& column, uint64_t value);

// The scalar of an array that lies at `row` of its buffers, as text without quotes; true. It is as
// JSON has it: floats have a point, bytes are base64, a T comes before the time. Or, when
// `is_plain`, as Arrow's casts and files of CSV have it: 1.0 is "1", bytes are as they are.
// False, and nothing written, where it has no text: nested, in JSON a float that is not finite.
// Throws std::invalid_argument for a time beyond the years -32767 … 32767, or the day.
bool write_text(const FieldType& type, const ArrowArray& array, int64_t row, Bytes& out,
                bool is_plain = false);

// The bytes of a text or binary value.
std::string_view bytes_at(const FieldType& type, const ArrowArray& array, int64_t row);

// Standard base64 with padding.
void write_base64(const uint8_t* data, int64_t n, Bytes& out);

}  // namespace fabric::codecs
