// The header in front of a registry's rows: a zero byte and the id of the schema that wrote it.
//
// One job: read and write it, and keep a decoder's program per id. A new id asks Python once, by a
// function that takes the GIL; it may wait for the registry.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "codecs/codec.hpp"

namespace fabric::codecs {

constexpr int64_t HEADER_BYTES = 5;
constexpr int64_t NO_ID = -1;

inline void write_header(uint32_t id, Bytes& out) {
  out.add<uint8_t>(0);
  out.add<uint32_t>(__builtin_bswap32(id));
}

// What makes `id` known: returns true after `Framed::put`, false with a reason that makes the row a
// bad one; throws PythonError.
using Lookup = std::function<bool(int64_t id, std::string& reason)>;

template <class Program>
class Framed {
 public:
  // Without a lookup rows have no header, and one program (of id NO_ID) reads all.
  explicit Framed(Lookup lookup) : lookup_(std::move(lookup)) {}

  void put(int64_t id, std::unique_ptr<Program> program) {
    programs_[id] = std::move(program);
    last_ = nullptr;
  }

  bool has_header() const { return static_cast<bool>(lookup_); }

  // The program for a row, and `value` without its header; nullptr with a reason.
  Program* find(Span& value, std::string& reason) {
    int64_t id = NO_ID;
    if (has_header()) {
      if (value.size < HEADER_BYTES || value.data[0] != 0) {
        reason = "it does not begin with a schema's id (a zero byte and four more)";
        return nullptr;
      }
      uint32_t swapped;
      std::memcpy(&swapped, value.data + 1, sizeof swapped);
      id = __builtin_bswap32(swapped);
      value = Span{value.data + HEADER_BYTES, value.size - HEADER_BYTES};
    }
    if (last_ != nullptr && id == last_id_) return last_;
    auto found = programs_.find(id);
    if (found == programs_.end()) {
      if (!has_header() || !lookup_(id, reason)) return nullptr;
      found = programs_.find(id);
      if (found == programs_.end()) {
        reason = "its schema is not known";
        return nullptr;
      }
    }
    last_id_ = id;
    return last_ = found->second.get();
  }

 private:
  Lookup lookup_;
  std::unordered_map<int64_t, std::unique_ptr<Program>> programs_;
  int64_t last_id_ = NO_ID;
  Program* last_ = nullptr;
};

}  // namespace fabric::codecs
