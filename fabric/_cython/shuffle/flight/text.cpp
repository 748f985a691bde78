// Quoting of names from strangers: see `text.hpp`.
//
// One job: one code point of UTF-8 after the other, escaped where a terminal or JSON would mind it.
#include "flight/text.hpp"

#include <arrow/type.h>
#include <arrow/util/utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace fabric {
namespace {

// The next code point of valid UTF-8; `at` moves behind it.
uint32_t next_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t point = first & (0x3F >> more);
  for (int i = 0; i < more && at < text.size(); ++i) point = point << 6 | (byte(at++) & 0x3F);
  return point;
}

}  // namespace

bool is_utf8(std::string_view text) {
  arrow::util::InitializeUTF8();
  return arrow::util::ValidateUTF8(text);
}

size_t characters(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (c & 0xC0) != 0x80;
  return n;
}

bool is_printable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_point(text, at);
    const bool control = point < 0x20 || (point >= 0x7F && point <= 0xA0) || point == 0xAD;
    const bool layout = (point >= 0x2000 && point <= 0x200F) || point == 0x1680 ||
                        (point >= 0x2028 && point <= 0x202F) || point == 0x3000 ||
                        (point >= 0x205F && point <= 0x206F) || point == 0xFEFF ||
                        (point >= 0xE000 && point <= 0xF8FF) || point >= 0xE0000;
    if (control || layout) return false;
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  size_t n = 0;
  for (size_t at = 0; at < text.size() && n < 80; ++n) {
    const size_t begin = at;
    const uint32_t point = next_point(text, at);
    if (point == '\'' || point == '\\') out += '\\';
    if (is_printable(text.substr(begin, at - begin))) {
      out += text.substr(begin, at - begin);
    } else {
      char escaped[12];
      std::snprintf(escaped, sizeof escaped, point < 0x100 ? "\\x%02x" : "\\u%04x", point);
      out += escaped;
    }
  }
  return out + "'";
}

std::string quoted(const std::string& text) { return quoted(std::string_view(text)); }

std::string first_line(const std::string& text, size_t n_max) {
  std::string line = text.substr(0, std::min(text.find('\n'), n_max));
  while (!is_utf8(line)) line.pop_back();
  return line;
}

std::string columns_text(const arrow::Schema& schema) {
  std::string text;
  for (const auto& field : schema.fields()) {
    text += (text.empty() ? "" : ", ") + field->name() + ": " + field->type()->ToString();
    if (text.size() > 1000) break;
  }
  return first_line(text, 1000);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  const auto unit = [&](uint32_t value) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", value);
    out += escaped;
  };
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_point(text, at);
    if (point == '"' || point == '\\') out += '\\';
    if (point >= 0x20 && point < 0x7F) {
      out += static_cast<char>(point);
    } else if (point < 0x10000) {
      unit(point);
    } else {
      unit(0xD800 + ((point - 0x10000) >> 10));
      unit(0xDC00 + ((point - 0x10000) & 0x3FF));
    }
  }
  return out + "\"";
}

}  // namespace fabric
