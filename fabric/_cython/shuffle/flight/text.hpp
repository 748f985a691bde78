// Text towards people and JSON readers: quoting and the few facts about UTF-8 that it needs.
//
// One job: names from strangers in messages without control characters, cut to a length.
#pragma once
#include <arrow/type_fwd.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace fabric {

bool is_utf8(std::string_view text);

// Code points of valid UTF-8.
size_t characters(std::string_view text);

// No control characters and separators other than the space (what a terminal would obey).
bool is_printable(std::string_view text);

// `text` in quotes, cut to 80 characters, what is not printable escaped.
std::string quoted(std::string_view text);

// Else `std::quoted` would be found for strings wherever <iomanip> is included.
std::string quoted(const std::string& text);

// At most so many bytes of the first line of `text`, and none behind what is no UTF-8.
std::string first_line(const std::string& text, size_t n_max);

// Names and types, for messages.
std::string columns_text(const arrow::Schema& schema);

// A JSON string, in ASCII alone.
std::string json_text(std::string_view text);

}  // namespace fabric
