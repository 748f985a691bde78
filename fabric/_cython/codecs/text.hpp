// Rows as text: JSON objects, lines of CSV, and one column as the plain text or bytes of it.
//
// One job: make these codecs; what they take and write is said in text.pyx. The decoder of JSON
// needs simdjson, in json_decoder.cpp alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

struct CsvRules {
  char delimiter = ',';
  char quote = '"';                 // '\0': none
  bool fills = false;               // missing fields are null, further ones cut off
  std::vector<std::string> nulls;   // texts that are null, also in quotes
  std::vector<int32_t> columns;     // for each field of a line the column that it is, or -1
};

// Which texts are in quotes: those that need it (all texts), all values, none.
enum class Quoting : int32_t { texts, all, none };

std::unique_ptr<Decoder> make_csv_decoder(const ArrowSchema& schema, CsvRules rules);
std::unique_ptr<Encoder> make_csv_encoder(const ArrowSchema& schema, char delimiter,
                                          Quoting quoting);

// `schema` has one column; the value is its text, or its bytes. Null is a null value.
std::unique_ptr<Decoder> make_text_decoder(const ArrowSchema& schema);
std::unique_ptr<Encoder> make_text_encoder(const ArrowSchema& schema);

}  // namespace fabric::codecs
