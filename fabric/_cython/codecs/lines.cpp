// Lines of CSV, and values that are the text or bytes of one column.
#include "codecs/text.hpp"

#include <algorithm>
#include <utility>

#include "arrays.hpp"
#include "codecs/scalars.hpp"

namespace fabric::codecs {
namespace {

constexpr size_t LINE_SHOWN_BYTES = 40;

bool has_no_text(const FieldType& type) {
  return type.kind == Kind::interval || type.kind == Kind::list || type.kind == Kind::fixed_list ||
         type.kind == Kind::structure || type.kind == Kind::map;
}

const Column& checked(const Column& rows, const char* what) {
  for (const Column& column : rows.children()) {
    if (has_no_text(column.type())) {
      throw std::invalid_argument("column '" + column.type().name + "' is a " +
                                  column.type().shown + ", which " + what + " can't hold");
    }
  }
  return rows;
}

// A text as a value of a column; false and a reason when it is none.
bool append_checked(Column& column, std::string_view text, std::string& reason) {
  if (column.type().kind == Kind::text && !is_utf8(text)) {
    reason = "column '" + column.type().name + "': the text is not valid UTF-8";
    return false;
  }
  if (append_text(column, text, true)) return true;
  std::string shown(text.substr(0, LINE_SHOWN_BYTES));
  if (text.size() > LINE_SHOWN_BYTES) shown += "…";
  reason = "column '" + column.type().name + "': '" + shown + "' is not a valid " +
           column.type().shown;
  return false;
}

class CsvDecoder final : public Decoder {
 public:
  CsvDecoder(const ArrowSchema& schema, CsvRules rules)
      : Decoder(schema), rules_(std::move(rules)) {
    checked(this->rows(), "a line of CSV");
  }

 protected:
  bool decode(const Span& value, std::string& reason) override {
    std::string_view line(reinterpret_cast<const char*>(value.data),
                          static_cast<size_t>(value.size));
    if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    at_ = line.data(), end_ = at_ + line.size();
    const size_t n_fields = rules_.columns.size();
    size_t n = 0;
    for (bool goes_on = true; goes_on; ++n) {
      if (!field(goes_on, reason)) return false;
      const int32_t column = n < n_fields ? rules_.columns[n] : -1;
      if (column >= 0 && !append(columns()[static_cast<size_t>(column)], reason)) return false;
    }
    if (n == n_fields || (rules_.fills && n > n_fields)) return true;
    if (!rules_.fills) {
      reason = "the line has " + std::to_string(n) + " fields, expected " +
               std::to_string(n_fields);
      return false;
    }
    for (; n < n_fields; ++n) {
      if (rules_.columns[n] < 0) continue;
      if (!null(columns()[static_cast<size_t>(rules_.columns[n])], reason)) return false;
    }
    return true;
  }

 private:
  // The next field into `text_`, and whether one more follows.
  bool field(bool& goes_on, std::string& reason) {
    is_quoted_ = rules_.quote != '\0' && at_ < end_ && *at_ == rules_.quote;
    if (is_quoted_ && !quoted(reason)) return false;
    if (!is_quoted_) {
      const char* from = at_;
      while (at_ < end_ && *at_ != rules_.delimiter && *at_ != '\n' && *at_ != '\r') ++at_;
      text_ = {from, static_cast<size_t>(at_ - from)};
    }
    goes_on = at_ < end_;
    if (goes_on && *at_ != rules_.delimiter) {
      reason = is_quoted_ ? "the line continues after a closing quote"
                          : "the value has more than one line";
      return false;
    }
    at_ += goes_on;
    return true;
  }

  bool quoted(std::string& reason) {
    const char* from = ++at_;
    unquoted_.clear();
    for (;;) {
      const char* quote = std::find(at_, end_, rules_.quote);
      if (quote == end_) {
        reason = "a quote is not closed";
        return false;
      }
      at_ = quote + 1;
      if (at_ == end_ || *at_ != rules_.quote) {
        text_ = {from, static_cast<size_t>(quote - from)};
        if (unquoted_.empty()) return true;
        unquoted_.append(from, quote);
        text_ = unquoted_;
        return true;
      }
      unquoted_.append(from, at_);  // the first of the two
      from = ++at_;
    }
  }

  bool append(Column& column, std::string& reason) {
    if (text_.empty() && !is_quoted_) return null(column, reason);
    for (const std::string& null_text : rules_.nulls) {
      if (text_ == null_text) return null(column, reason);
    }
    if (column.type().kind != Kind::text && column.type().kind != Kind::binary) {
      while (!text_.empty() && (text_.back() == ' ' || text_.back() == '\t')) {
        text_.remove_suffix(1);
      }
      while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t')) text_.remove_prefix(1);
    }
    return append_checked(column, text_, reason);
  }

  static bool null(Column& column, std::string& reason) {
    if (!column.type().is_nullable) {
      reason = "column '" + column.type().name + "': null is not allowed";
      return false;
    }
    column.null();
    return true;
  }

  CsvRules rules_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool is_quoted_ = false;
  std::string_view text_;
  std::string unquoted_;
};

bool is_null(const ArrowArray& array, int64_t row) {
  if (array.n_buffers == 0) return true;  // of type null
  return array.null_count != 0 && array.buffers[0] != nullptr && !bit_at(bytes_of(array, 0), row);
}

class CsvEncoder final : public Encoder {
 public:
  CsvEncoder(const ArrowSchema& schema, char delimiter, Quoting quoting)
      : types_(schema), delimiter_(delimiter), quoting_(quoting) {
    checked(types_, "a line of CSV");
  }

  void encode(const ArrowArray& rows, Values& out) override {
    for (int64_t i = 0; i < rows.length; ++i) {
      for (size_t k = 0; k < types_.children().size(); ++k) {
        if (k > 0) out.data.add(delimiter_);
        const ArrowArray& array = *rows.children[k];
        const int64_t row = array.offset + rows.offset + i;
        if (!is_null(array, row)) value(types_.children()[k].type(), array, row, out.data);
      }
      out.end();
    }
  }

 private:
  void value(const FieldType& type, const ArrowArray& array, int64_t row, Bytes& out) const {
    const bool is_bytes = type.kind == Kind::text || type.kind == Kind::binary ||
                          type.kind == Kind::fixed_binary;
    const bool is_quoted = quoting_ == Quoting::all || (quoting_ == Quoting::texts && is_bytes);
    if (is_quoted) out.add('"');
    if (is_bytes && is_quoted) {
      for (const char c : bytes_at(type, array, row)) {
        if (c == '"') out.add('"');
        out.add(c);
      }
    } else if (is_bytes) {
      const std::string_view bytes = bytes_at(type, array, row);
      const char refused[] = {delimiter_, '"', '\r', '\n'};
      if (bytes.find_first_of(std::string_view(refused, sizeof refused)) != bytes.npos) {
        throw std::invalid_argument("column '" + type.name + "': '" +
                                    std::string(bytes.substr(0, LINE_SHOWN_BYTES)) +
                                    "' can't be written without quotes");
      }
      out.add(bytes.data(), static_cast<int64_t>(bytes.size()));
    } else {
      write_text(type, array, row, out, true);
    }
    if (is_quoted) out.add('"');
  }

  Column types_;
  char delimiter_;
  Quoting quoting_;
};

const Column& one_column(const Column& rows) {
  if (rows.children().size() != 1) {
    throw std::invalid_argument("plain text and raw values have one column, not " +
                                std::to_string(rows.children().size()));
  }
  return checked(rows, "a plain text");
}

class TextDecoder final : public Decoder {
 public:
  explicit TextDecoder(const ArrowSchema& schema) : Decoder(schema) { one_column(rows()); }

 protected:
  bool decode(const Span& value, std::string& reason) override {
    const std::string_view text(reinterpret_cast<const char*>(value.data),
                                static_cast<size_t>(value.size));
    return append_checked(columns()[0], text, reason);
  }
};

class TextEncoder final : public Encoder {
 public:
  explicit TextEncoder(const ArrowSchema& schema) : types_(schema) { one_column(types_); }

  void encode(const ArrowArray& rows, Values& out) override {
    const ArrowArray& array = *rows.children[0];
    for (int64_t i = 0; i < rows.length; ++i) {
      const int64_t row = array.offset + rows.offset + i;
      if (is_null(array, row)) {
        out.null();
        continue;
      }
      write_text(types_.children()[0].type(), array, row, out.data, true);
      out.end();
    }
  }

 private:
  Column types_;
};

}  // namespace

std::unique_ptr<Decoder> make_csv_decoder(const ArrowSchema& schema, CsvRules rules) {
  return std::make_unique<CsvDecoder>(schema, std::move(rules));
}

std::unique_ptr<Encoder> make_csv_encoder(const ArrowSchema& schema, char delimiter,
                                          Quoting quoting) {
  return std::make_unique<CsvEncoder>(schema, delimiter, quoting);
}

std::unique_ptr<Decoder> make_text_decoder(const ArrowSchema& schema) {
  return std::make_unique<TextDecoder>(schema);
}

std::unique_ptr<Encoder> make_text_encoder(const ArrowSchema& schema) {
  return std::make_unique<TextEncoder>(schema);
}

}  // namespace fabric::codecs
