// The header in front of a registry's rows: a zero byte, the id of the schema that wrote it, and
// for Protobuf which of the schema's messages it is.
//
// One job: read and write it, and keep a decoder's program per header. A new one asks Python once,
// by a function that takes the GIL; it may wait for the registry.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "codecs/codec.hpp"

namespace fabric::codecs {

constexpr int64_t ID_BYTES = 5;

// What makes rows with a header known: returns true after `Framed::put`, false with a reason that
// makes the row a bad one; throws PythonError.
using Lookup = std::function<bool(std::string_view header, std::string& reason)>;

template <class Program>
class Framed {
 public:
  // Without a lookup rows have no header: one program, of the header "", reads all.
  explicit Framed(Lookup lookup) : lookup_(std::move(lookup)) {}

  void put(std::string header, std::unique_ptr<Program> program) {
    last_ = nullptr;
    programs_[std::move(header)] = std::move(program);
  }

  bool has_header() const { return static_cast<bool>(lookup_); }

  // Whether a row begins as one of a registry does; with a reason if not.
  static bool has_id(const Span& value, std::string& reason) {
    if (value.size >= ID_BYTES && value.data[0] == 0) return true;
    reason = "the value does not start with a schema id (a zero byte and a 4-byte id)";
    return false;
  }

  // The program for a row whose header is its first `n` bytes, which are taken off `value`; nullptr
  // with a reason.
  Program* find(Span& value, int64_t n, std::string& reason) {
    const auto* at = reinterpret_cast<const char*>(value.data);
    const std::string_view header(at, static_cast<size_t>(n));
    value = Span{value.data + n, value.size - n};
    if (last_ != nullptr && header == last_header_) return last_;
    std::string key(header);
    auto found = programs_.find(key);
    if (found == programs_.end()) {
      if (!has_header() || !lookup_(header, reason)) return nullptr;
      found = programs_.find(key);
      if (found == programs_.end()) {
        reason = "the schema is unknown";
        return nullptr;
      }
    }
    last_header_ = std::move(key);
    return last_ = found->second.get();
  }

 private:
  Lookup lookup_;
  std::unordered_map<std::string, std::unique_ptr<Program>> programs_;
  std::string last_header_;
  Program* last_ = nullptr;
};

}  // namespace fabric::codecs
