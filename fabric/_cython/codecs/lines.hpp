// Rows as lines of CSV, and rows of one column as the plain text or bytes of it.
//
// One job: make these codecs; what they take and write is said in lines.pyx.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codecs/codec.hpp"

namespace fabric::codecs {

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
