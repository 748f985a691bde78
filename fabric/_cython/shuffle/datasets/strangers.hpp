// What is let in from clients that are no agents.
//
// One job: pure checks of one schema or batch. Bytes from outside may lie about offsets, which
// would kill a kernel.
#pragma once
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/util/key_value_metadata.h>

#include <set>

#include "datasets/nullable.hpp"
#include "datasets/unfolded.hpp"
#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {

constexpr int64_t MESSAGE_ROWS_MAX = 1 << 24;
constexpr int COLUMNS_MAX = 4096;
constexpr size_t NAME_CHARS_MAX = 1024;
constexpr int DEPTH_MAX = 64;
constexpr size_t METADATA_BYTES_MAX = 1 << 20;

// At most so many bytes of the first line of `text`, and none behind what is no UTF-8.
inline std::string first_line(const std::string& text, size_t n_max) {
  std::string line = text.substr(0, std::min(text.find('\n'), n_max));
  while (!is_utf8(line)) line.pop_back();
  return line;
}

// Names and types, for messages.
inline std::string columns_text(const arrow::Schema& schema) {
  std::string text;
  for (const auto& field : schema.fields()) {
    text += (text.empty() ? "" : ", ") + field->name() + ": " + field->type()->ToString();
    if (text.size() > 1000) break;
  }
  return first_line(text, 1000);
}

// Refuse types that hold code or nest without end.
inline arrow::Status check_foreign_type(const arrow::DataType& type, const std::string& name,
                                        int depth = 1) {
  if (depth > DEPTH_MAX) {
    return fault("DataError", "column " + quoted(name) + " nests deeper than " +
                                  std::to_string(DEPTH_MAX) + " levels");
  }
  if (type.id() == arrow::Type::EXTENSION) {
    const auto& extension = static_cast<const arrow::ExtensionType&>(type);
    return fault("DataError", "column " + quoted(name) + " has the extension type " +
                                  extension.extension_name());
  }
  if (type.id() == arrow::Type::DICTIONARY) {
    const auto& values = static_cast<const arrow::DictionaryType&>(type).value_type();
    ARROW_RETURN_NOT_OK(check_foreign_type(*values, name, depth + 1));
  }
  for (const auto& field : type.fields()) {
    ARROW_RETURN_NOT_OK(check_foreign_type(*field->type(), name, depth + 1));
  }
  return arrow::Status::OK();
}

// A DataError when a schema from outside is not one to work with.
inline arrow::Status check_foreign_schema(const arrow::Schema& schema) {
  if (schema.num_fields() < 1 || schema.num_fields() > COLUMNS_MAX) {
    return fault("DataError", "a stream has 1 to " + std::to_string(COLUMNS_MAX) +
                                  " columns, this one has " + std::to_string(schema.num_fields()));
  }
  std::set<std::string_view> seen;
  for (const auto& field : schema.fields()) {
    const std::string& name = field->name();
    if (name.empty() || !is_utf8(name) || characters(name) > NAME_CHARS_MAX ||
        name.find('\0') != name.npos) {
      return fault("DataError", "column name " + quoted(is_utf8(name) ? name : "") +
                                    " is not allowed; use 1 to " +
                                    std::to_string(NAME_CHARS_MAX) + " characters");
    }
    if (!seen.insert(name).second) {
      return fault("DataError",
                   "column " + quoted(name) + " is there twice; column names must differ");
    }
    ARROW_RETURN_NOT_OK(check_foreign_type(*field->type(), name));
    if (!is_utf8(field->type()->ToString())) {  // names inside, time zones
      return fault("DataError", "the type of column " + quoted(name) + " is not UTF-8 text");
    }
  }
  size_t n_bytes = 0;
  if (const auto& metadata = schema.metadata()) {
    for (const std::string& key : metadata->keys()) n_bytes += key.size();
    for (const std::string& value : metadata->values()) n_bytes += value.size();
  }
  if (n_bytes <= METADATA_BYTES_MAX) return arrow::Status::OK();
  return fault("DataError", "a schema has at most " + std::to_string(METADATA_BYTES_MAX) +
                                " bytes of metadata");
}

// A DataError unless every value of a batch from outside can be read safely.
inline arrow::Status check_foreign_batch(const arrow::RecordBatch& batch,
                                         const arrow::Schema& schema) {
  if (batch.num_rows() > MESSAGE_ROWS_MAX) {
    return fault("DataError", "a message has at most " + std::to_string(MESSAGE_ROWS_MAX) +
                                  " rows, this one has " + std::to_string(batch.num_rows()));
  }
  const arrow::Status valid = batch.ValidateFull();
  if (!valid.ok()) {
    return fault("DataError",
                 "a batch of the stream is damaged: " + first_line(valid.message(), 300));
  }
  ARROW_RETURN_NOT_OK(check_unfolded(batch));
  return check_nulls(batch, schema);
}

// The stream of a put must have the columns of its dataset.
inline arrow::Status check_columns(const arrow::Schema& given, const arrow::Schema& expected,
                                   const std::string& name) {
  if (given.Equals(expected, false)) return arrow::Status::OK();
  return fault("DataError", "the stream has columns " + columns_text(given) + ", dataset " +
                                quoted(name) + " has " + columns_text(expected));
}

}  // namespace fabric
