// Names that may become a part of a path: what `fabric/ids.py` lets pass.
//
// One job: the same check, with the same words.
#pragma once
#include "wire/fault.hpp"

namespace fabric {

// As Python's repr shows a text, at most `chars_max` characters of it.
inline std::string quoted_name(std::string_view text, size_t chars_max = 80) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  size_t n_chars = 0;
  for (const char letter : text) {
    const auto byte = static_cast<uint8_t>(letter);
    const bool begins = (byte & 0xC0) != 0x80;
    if (begins && n_chars++ == chars_max) break;
    if (letter == quote || letter == '\\') out += '\\';
    if (byte >= 32 && byte != 127) {
      out += letter;
    } else if (letter == '\n' || letter == '\r' || letter == '\t') {
      out += letter == '\n' ? "\\n" : letter == '\r' ? "\\r" : "\\t";
    } else {
      out += "\\x";
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    }
  }
  return out + quote;
}

inline bool is_safe_name(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || text.size() > 128 || !plain(text[0])) return false;
  for (const char c : text) {
    if (!plain(c) && c != '_' && c != '.' && c != '-') return false;
  }
  return true;
}

// Fine when `name` is safe in a path and a descriptor, else an error of `kind`.
inline arrow::Status check_name(std::string_view name, const std::string& what,
                                std::string_view kind = "ConfigError") {
  if (is_safe_name(name)) return arrow::Status::OK();
  return fault(kind, what + " " + quoted_name(name) + " is not allowed; use 1 to 128 letters, digits, "
                     "'.', '-' or '_', beginning with a letter or digit");
}

}  // namespace fabric
