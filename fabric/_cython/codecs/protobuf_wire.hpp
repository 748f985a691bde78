// The wire format of Protocol Buffers, below its messages.
//
// One job: tags, numbers and lengths, each read within its bounds.
#pragma once
#include <cstdint>
#include <cstring>

#include "codecs/codec.hpp"
#include "codecs/integers.hpp"
#include "codecs/protobuf.hpp"

namespace fabric::codecs {

enum Wire : uint32_t { VARINT = 0, FIXED64 = 1, SIZED = 2, BEGIN = 3, END = 4, FIXED32 = 5 };

// Bytes being read; false is always "truncated or corrupt".
struct Wires {
  const uint8_t* at;
  const uint8_t* end;

  bool varint(uint64_t& out) {
    if (__builtin_expect(at < end && *at < 0x80, 1)) {
      out = *at++;
      return true;
    }
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && at < end; shift += 7) {
      const uint8_t byte = *at++;
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        out = value;
        return true;
      }
    }
    return false;
  }

  template <class T>
  bool fixed(uint64_t& out) {
    if (end - at < static_cast<int64_t>(sizeof(T))) return false;
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    out = value;
    return true;
  }

  bool sized(Span& out) {
    uint64_t size = 0;
    if (!varint(size) || size > static_cast<uint64_t>(end - at)) return false;
    out = Span{at, static_cast<int64_t>(size)};
    at += size;
    return true;
  }

  // A field's number and wire type; those that no field can have are refused.
  bool tag(uint32_t& number, uint32_t& wire) {
    uint64_t raw = 0;
    if (!varint(raw) || raw > UINT32_MAX) return false;
    number = static_cast<uint32_t>(raw) >> 3;
    wire = static_cast<uint32_t>(raw) & 7;
    return number > 0 && wire <= FIXED32;
  }

  bool scalar(uint32_t wire, uint64_t& out) {
    switch (wire) {
      case VARINT: return varint(out);
      case FIXED64: return fixed<uint64_t>(out);
      case FIXED32: return fixed<uint32_t>(out);
      default: return false;
    }
  }

  // Jump over a value; of a group `inside` is what lies between its tags.
  bool skip(uint32_t number, uint32_t wire, Span& inside, int depth = 0) {
    uint64_t raw = 0;
    if (wire == SIZED) return sized(inside);
    if (wire == END || depth > PROTOBUF_DEPTH_MAX) return false;
    if (wire != BEGIN) return scalar(wire, raw);
    const uint8_t* const begin = at;
    for (;;) {
      const uint8_t* const before = at;
      uint32_t inner = 0, inner_wire = 0;
      if (!tag(inner, inner_wire)) return false;
      if (inner_wire == END) {
        inside = Span{begin, before - begin};
        return inner == number;
      }
      Span ignored{};
      if (!skip(inner, inner_wire, ignored, depth + 1)) return false;
    }
  }

  // A whole Timestamp or Duration; what it does not hold stays as it is.
  bool moment(int64_t& seconds, int32_t& nanos) {
    while (at < end) {
      uint32_t number = 0, wire = 0;
      uint64_t raw = 0;
      Span inside{};
      if (!tag(number, wire)) return false;
      if (wire != VARINT || number > 2) {
        if (!skip(number, wire, inside)) return false;
        continue;
      }
      if (!varint(raw)) return false;
      if (number == 1) seconds = static_cast<int64_t>(raw);
      else nanos = static_cast<int32_t>(raw);
    }
    return true;
  }
};

inline uint32_t wire_of(PbType type) {
  switch (type) {
    case PbType::double_: case PbType::fixed64: case PbType::sfixed64: return FIXED64;
    case PbType::float_: case PbType::fixed32: case PbType::sfixed32: return FIXED32;
    case PbType::string: case PbType::bytes: case PbType::message: return SIZED;
    case PbType::group: return BEGIN;
    default: return VARINT;
  }
}

}  // namespace fabric::codecs
