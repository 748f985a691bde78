// Whether a piece of text is JSON: for values that nobody reads, which simdjson only skips.
#include <cstring>

#include "codecs/text.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Walks over a text, which it never leaves.
class Check {
 public:
  Check(std::string_view text, int64_t depth_max)
      : at_(text.data()), end_(at_ + text.size()), depth_max_(depth_max) {}

  bool value() {
    for (;;) {  // once a value begins
      if (at_ == end_) return false;
      if (*at_ == '{' || *at_ == '[') {
        const bool is_object = *at_++ == '{';
        if (static_cast<int64_t>(open_.size()) >= depth_max_) return false;
        open_.push_back(is_object ? '}' : ']');
        skip();
        if (!take(open_.back())) {
          if (is_object && !key()) return false;
          continue;
        }
        open_.pop_back();
      } else if (!scalar()) {
        return false;
      }
      // Behind a value: what is open ends, or goes on with the next one.
      for (;;) {
        if (open_.empty()) return at_ == end_;
        skip();
        if (take(',')) {
          skip();
          if (open_.back() == '}' && !key()) return false;
          break;
        }
        if (!take(open_.back())) return false;
        open_.pop_back();
      }
    }
  }

 private:
  void skip() {
    while (at_ < end_ && is_space(*at_)) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool key() {
    if (!string()) return false;
    skip();
    if (!take(':')) return false;
    skip();
    return true;
  }
  bool scalar() {
    if (*at_ == '"') return string();
    const char* from = at_;
    while (at_ < end_ && !is_space(*at_) && !std::strchr(",]}", *at_)) ++at_;
    const std::string_view text(from, static_cast<size_t>(at_ - from));
    return text == "null" || text == "true" || text == "false" || is_json_number(text) ||
           text == "NaN" || text == "Infinity" || text == "-Infinity";
  }
  bool string() {
    if (!take('"')) return false;
    while (at_ < end_) {
      const char c = *at_++;
      if (c == '"') return true;
      if (c == '\\' && !escape()) return false;
    }
    return false;
  }
  bool escape() {
    if (at_ == end_) return false;
    const char c = *at_++;
    if (c != 'u') return c != '\0' && std::strchr("\"\\/bfnrt", c) != nullptr;
    uint32_t unit;
    if (!hex(unit) || (unit >= 0xDC00 && unit < 0xE000)) return false;
    if (unit < 0xD800 || unit >= 0xDC00) return true;
    return take('\\') && take('u') && hex(unit) && unit >= 0xDC00 && unit < 0xE000;
  }
  bool hex(uint32_t& unit) {
    if (end_ - at_ < 4) return false;
    unit = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = *at_++;
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9') unit = unit << 4 | static_cast<uint32_t>(c - '0');
      else if (lower >= 'a' && lower <= 'f') unit = unit << 4 | static_cast<uint32_t>(lower - 87);
      else return false;
    }
    return true;
  }

  const char* at_;
  const char* end_;
  int64_t depth_max_;
  std::string open_;  // what ends each object and array that is open
};

}  // namespace

bool is_json(std::string_view text, int64_t depth_max) { return Check(text, depth_max).value(); }

}  // namespace fabric::codecs
