// Single values as text: how they are read, and how they are written.
//
// One job: the texts that JSON, CSV and plain lines have in common. What is read here means what
// Arrow's own parsers of files make of it; nothing is rounded in silence, and what does not fit is
// refused. Times are ISO 8601. No allocation but for `Bytes`, no locale, O(length).
#pragma once
#include <cstdint>
#include <string_view>

#include "codecs/columns.hpp"

namespace fabric::codecs {

constexpr int64_t DAY_S = 86'400;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether `text` is UTF-8 (by simdjson).
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
