// Rows as JSON objects: one document a value.
//
// One job: make the two codecs; how values of each type look in JSON is said in json.pyx. The
// decoder needs simdjson, in json_decoder.cpp alone; the encoder needs nothing.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "codecs/codec.hpp"

namespace fabric::codecs {

// `schema` is a struct. With `framed`, 5 bytes of a schema registry come before each document: a
// zero, and the big-endian id, which is not looked at. Throws std::invalid_argument, see `Column`.
std::unique_ptr<Decoder> make_json_decoder(const ArrowSchema& schema, bool framed);

// `prefix` comes before each document. Throws std::invalid_argument for a type without a form.
std::unique_ptr<Encoder> make_json_encoder(const ArrowSchema& schema, std::string prefix);

// Whether `text` is one JSON value with no space around it, nested at most `depth_max` deep. The
// text is UTF-8 without control characters, which is for the caller to know. O(length), no
// recursion.
bool is_json(std::string_view text, int64_t depth_max);

// A text in quotes, with what JSON can't hold escaped.
void write_json_string(std::string_view text, Bytes& out);

// Throws std::invalid_argument where a column, or what is inside, can't be represented in JSON.
inline void check_json_type(const Column& column) {
  const FieldType& type = column.type();
  if (type.kind == Kind::interval) {
    throw std::invalid_argument("column '" + type.name + "' is a " + type.shown +
                                ", which can't be represented in JSON");
  }
  for (const Column& child : column.children()) check_json_type(child);
}

constexpr int64_t JSON_DEPTH_MAX = 1000;  // Python's own, about

}  // namespace fabric::codecs
