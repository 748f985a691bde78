// JSON documents to columns, by simdjson's on-demand parser, one document a row.
#include <simdjson.h>

#include <unordered_map>

#include "codecs/text.hpp"
#include "codecs/json_plain.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

namespace ondemand = simdjson::ondemand;
using simdjson::SIMDJSON_PADDING;
using simdjson::SUCCESS;

constexpr int64_t HEADER_BYTES = 5, SHOWN_BYTES = 40, KEPT_BYTES = 16 << 20;
constexpr size_t FEW_FIELDS = 12;  // looked through one by one

// A column, how its name is found in a document, and what is inside.
struct Field {
  Column* column;
  std::string name, path;
  bool is_top, has_plain_name;
  std::vector<Field> inside;
  std::unordered_map<std::string, size_t> by_name;  // where there are many

  explicit Field(Column& source, std::string where = "", int depth = 0)
      : column(&source), name(source.type().name), path(std::move(where)), is_top(depth == 1),
        has_plain_name(name.find_first_of("\"\\") == std::string::npos) {
    const bool has_names = source.type().kind == Kind::structure;
    for (Column& child : source.children()) {
      const std::string& below = child.type().name;
      inside.emplace_back(
          child, !has_names ? path + "[]" : path.empty() ? below : path + "." + below, depth + 1);
    }
    if (!has_names || inside.size() <= FEW_FIELDS) return;
    for (size_t i = 0; i < inside.size(); ++i) by_name.emplace(inside[i].name, i);
  }

  // Which field is called so, `guess` first; as many as there are: none.
  size_t find(std::string_view key, size_t guess) const {
    if (guess < inside.size() && inside[guess].name == key) return guess;
    if (!by_name.empty()) {
      const auto found = by_name.find(std::string(key));
      return found == by_name.end() ? inside.size() : found->second;
    }
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i].name == key) return i;
    }
    return inside.size();
  }
};

std::string_view trimmed(std::string_view text) {
  // simdjson ends a token at the next one, so what is in between is space.
  while (!text.empty() && static_cast<uint8_t>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  if (text.size() <= SHOWN_BYTES) return std::string(text);
  size_t n = SHOWN_BYTES;
  while (n > 0 && (text[n] & 0xC0) == 0x80) --n;  // never within a character
  return std::string(text.substr(0, n)) + "…";
}

class JsonDecoder final : public Decoder {
 public:
  JsonDecoder(const ArrowSchema& schema, bool framed)
      : Decoder(schema), framed_(framed), top_(rows()), plain_(rows()) {
    check_json_type(rows());
  }

 protected:
  bool decode(const Span& value, std::string& reason) override {
    reason_ = &reason;
    const uint8_t* data = value.data;
    int64_t size = value.size;
    if (framed_) {
      if (size < HEADER_BYTES || *data != 0) {
        return bad("the value does not start with a schema id (a zero byte and a 4-byte id)");
      }
      data += HEADER_BYTES, size -= HEADER_BYTES;
    }
    if (size == 0) return bad("the value is empty; a JSON object was expected");
    return plain_.read(data, size, n_rows()) || document(data, size);
  }

 private:
  // simdjson reads behind the end, and a value may end where its memory does: so it is copied.
  bool document(const uint8_t* data, int64_t size) {
    const int64_t room = size + static_cast<int64_t>(SIMDJSON_PADDING);
    padded_.set_size(0);
    char* text = padded_.room(room);
    std::memcpy(text, data, static_cast<size_t>(size));
    std::memset(text + size, 0, SIMDJSON_PADDING);
    if (static_cast<size_t>(size) > parser_.capacity()) grow(size);
    ondemand::document found;
    if (auto error = parser_.iterate(text, static_cast<size_t>(size), static_cast<size_t>(room))
                         .get(found)) {
      return no_json(error);
    }
    ondemand::object object;
    if (auto error = found.get_object().get(object)) {
      if (error != simdjson::INCORRECT_TYPE) return no_json(error);
      return bad("'" + shown({text, static_cast<size_t>(size)}) + "' is not a JSON object");
    }
    if (!fields(top_, n_rows(), object, 1)) return false;
    return found.at_end() || bad("the value continues after its JSON object");
  }

  void grow(int64_t size) {
    size_t capacity = 4096;
    while (capacity < static_cast<size_t>(size)) capacity *= 2;
    if (parser_.allocate(capacity, JSON_DEPTH_MAX + 24) != SUCCESS) throw std::bad_alloc();
  }

  // The fields of an object, row `row` of the columns of `parent`.
  bool fields(Field& parent, int64_t row, ondemand::object& object, int64_t depth) {
    if (depth > JSON_DEPTH_MAX) return too_deep();
    const size_t n = parent.inside.size();
    size_t next = 0, n_found = 0;
    for (auto result : object) {
      ondemand::field field;
      if (auto error = std::move(result).get(field)) return no_json(error);
      size_t at;
      if (next < n && parent.inside[next].has_plain_name &&
          field.key().unsafe_is_equal(parent.inside[next].name)) {
        at = next;
      } else if (!find(parent, field, next, at)) {
        return false;
      }
      if (at == n) {
        if (!ignore(field.value(), depth)) return false;
        continue;
      }
      Field& child = parent.inside[at];
      if (__builtin_expect(child.column->length() > row, 0)) {  // once more: the last one counts
        child.column->truncate(row);
        --n_found;
      }
      if (!value(child, field.value(), depth)) return false;
      ++n_found;
      next = at + 1 < n ? at + 1 : 0;
    }
    return n_found == n || missing(parent, row);
  }

  bool find(const Field& parent, ondemand::field& field, size_t guess, size_t& at) {
    const std::string_view key = field.escaped_key();
    if (key.find('\\') == std::string_view::npos) {
      at = parent.find(key, guess);
      return true;
    }
    std::string_view plain;
    if (auto error = field.unescaped_key(false).get(plain)) return no_json(error);
    at = parent.find(plain, guess);
    return true;
  }

  bool missing(Field& parent, int64_t row) {
    for (Field& child : parent.inside) {
      if (child.column->length() > row) continue;
      if (!child.column->type().is_nullable) {
        return bad("column '" + child.path + "' is missing, and null is not allowed");
      }
      child.column->null();
    }
    return true;
  }

  bool ignore(ondemand::value& found, int64_t depth) {
    std::string_view text;
    return whole(found, depth, text);
  }

  // A value as it is written, if it is JSON.
  bool whole(ondemand::value& found, int64_t depth, std::string_view& text) {
    text = found.raw_json_token();
    if (text.front() == '{' || text.front() == '[') {
      if (auto error = found.raw_json().get(text)) return no_json(error);
    }
    text = trimmed(text);
    return is_json(text, JSON_DEPTH_MAX - depth) || not_json(text);
  }

  bool value(Field& field, ondemand::value& found, int64_t depth) {
    Column& column = *field.column;
    switch (column.type().kind) {
      case Kind::int64: {
        int64_t number;
        if (found.get_int64().get(number) != SUCCESS) break;
        column.number(number);
        return true;
      }
      case Kind::float64: {
        double number;
        if (found.get_double().get(number) != SUCCESS) break;
        column.number(number);
        return true;
      }
      case Kind::boolean: {
        bool is_true;
        if (found.get_bool().get(is_true) != SUCCESS) break;
        column.boolean(is_true);
        return true;
      }
      case Kind::text: {
        std::string_view text = trimmed(found.raw_json_token());
        if (text.front() != '"') break;
        if (std::memchr(text.data(), '\\', text.size()) == nullptr) {  // as it is: no second copy
          column.bytes(text.substr(1, text.size() - 2));
          return true;
        }
        if (auto error = found.get_string(false).get(text)) return no_json(error);
        column.bytes(text);
        return true;
      }
      case Kind::list: case Kind::fixed_list: {
        ondemand::array items;
        if (found.get_array().get(items) != SUCCESS) break;
        return list(field, items, depth + 1);
      }
      case Kind::structure: {
        ondemand::object object;
        if (found.get_object().get(object) != SUCCESS) break;
        if (!fields(field, column.length(), object, depth + 1)) return false;
        column.end_struct();
        return true;
      }
      case Kind::map: {
        ondemand::object object;
        if (found.get_object().get(object) != SUCCESS) break;
        return map(field, object, depth + 1);
      }
      default:
        break;
    }
    return other(field, found, depth);
  }

  // Nulls, types that are rarer, and what does not fit.
  bool other(Field& field, ondemand::value& found, int64_t depth) {
    Column& column = *field.column;
    const Kind kind = column.type().kind;
    const std::string_view token = trimmed(found.raw_json_token());
    if (token == "null") {
      if (!column.type().is_nullable) return misfit(field, "null is not allowed");
      column.null();
      return true;
    }
    if (token.front() == '"') {
      std::string_view text;
      if (auto error = found.get_string(false).get(text)) return no_json(error);
      return append_json_text(column, text) || unfit(field, token);
    }
    if (kind == Kind::text && field.is_top) return written(field, found, depth);
    return append_json_number(column, token) || unfit(field, token);
  }

  // A column of text takes any value, as it is written.
  bool written(Field& field, ondemand::value& found, int64_t depth) {
    std::string_view text;
    if (!whole(found, depth, text)) return false;
    field.column->bytes(text);
    return true;
  }

  bool list(Field& field, ondemand::array& items, int64_t depth) {
    if (depth > JSON_DEPTH_MAX) return too_deep();
    Column& column = *field.column;
    Field& inside = field.inside[0];
    const int64_t before = inside.column->length();
    for (auto result : items) {
      ondemand::value item;
      if (auto error = std::move(result).get(item)) return no_json(error);
      if (!value(inside, item, depth)) return false;
    }
    if (column.type().kind == Kind::list) {
      column.end_list();
      return true;
    }
    const int64_t n_items = inside.column->length() - before;
    if (n_items != column.type().width) {
      return misfit(field, "it has " + std::to_string(n_items) + " elements, expected " +
                              std::to_string(column.type().width));
    }
    column.end_struct();
    return true;
  }

  // Of keys that are there twice the last one counts: the keys are looked at before any value is.
  bool map(Field& field, ondemand::object& object, int64_t depth) {
    if (depth > JSON_DEPTH_MAX) return too_deep();
    std::vector<std::string> keys;
    for (auto result : object) {
      ondemand::field entry;
      std::string_view key;
      if (auto error = std::move(result).get(entry)) return no_json(error);
      if (auto error = entry.unescaped_key(false).get(key)) return no_json(error);
      keys.emplace_back(key);
    }
    std::unordered_map<std::string_view, size_t> last;
    for (size_t i = 0; i < keys.size(); ++i) last[keys[i]] = i;
    bool is_empty;
    if (auto error = object.reset().get(is_empty)) return no_json(error);
    Field& entries = field.inside[0];
    size_t i = 0;
    for (auto result : object) {
      ondemand::field entry;
      if (auto error = std::move(result).get(entry)) return no_json(error);
      const std::string& key = keys[i];
      if (last[key] != i++) {
        if (!ignore(entry.value(), depth)) return false;
        continue;
      }
      if (!append_text(*entries.inside[0].column, key)) return unfit(field, key);
      if (!value(entries.inside[1], entry.value(), depth)) return false;
      entries.column->end_struct();
    }
    field.column->end_list();
    return true;
  }

  bool bad(std::string why) {
    *reason_ = std::move(why);
    return false;
  }
  bool no_json(simdjson::error_code error) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    std::string why = simdjson::error_message(error);
    while (!why.empty() && (why.back() == '.' || why.back() == ' ')) why.pop_back();
    return bad("the value is not JSON: " + why);
  }
  bool not_json(std::string_view text) {
    return bad("the value is not JSON at '" + shown(text) + "'");
  }
  bool too_deep() {
    return bad("the value is nested deeper than " + std::to_string(JSON_DEPTH_MAX) + " levels");
  }
  bool misfit(const Field& field, const std::string& why) {
    return bad("column '" + field.path + "': " + why);
  }
  bool unfit(const Field& field, std::string_view text) {
    return bad("column '" + field.path + "': " + shown(text) + " is not a valid " +
               field.column->type().shown);
  }

  bool framed_;
  Field top_;
  PlainJson plain_;
  Bytes padded_;
  ondemand::parser parser_;
  std::string* reason_ = nullptr;
};

}  // namespace

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::unique_ptr<Decoder> make_json_decoder(const ArrowSchema& schema, bool framed) {
  return std::make_unique<JsonDecoder>(schema, framed);
}

}  // namespace fabric::codecs
