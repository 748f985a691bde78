// Empty batches, checksums of batches, and batches as C structs, by Arrow.
#include "wire/batches.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/util.h>
#include <arrow/c/bridge.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <utility>

#include "wire/crc32c.hpp"

namespace fabric {

bool has_dictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::EXTENSION) {
    return has_dictionary(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  return type.id() == arrow::Type::DICTIONARY ||
         std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& field) { return has_dictionary(*field->type()); });
}

// Arrow's `MakeEmpty` goes by builders, which give dictionaries indices of another type than asked
// for, or do not exist for them; its arrays of nulls give run-end encoded columns inside structs a
// bitmap that they may not have.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> empty_rows(
    const std::shared_ptr<arrow::Schema>& schema) {
  arrow::ArrayVector columns;
  for (const auto& field : schema->fields()) {
    const auto& type = field->type();
    const bool encoded = has_dictionary(*type);
    ARROW_ASSIGN_OR_RAISE(
        auto column, encoded ? arrow::MakeArrayOfNull(type, 0) : arrow::MakeEmptyArray(type));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, 0, std::move(columns));
}

arrow::Result<uint32_t> crc32c_of(const arrow::RecordBatch& batch, int cpu) {
  Exported exported;
  ARROW_RETURN_NOT_OK(exported.fill(batch));
  return canonical_crc32c(exported.schema, exported.array, cpu);
}

Exported::~Exported() {
  if (array.release != nullptr) array.release(&array);
  if (schema.release != nullptr) schema.release(&schema);
}

arrow::Status Exported::fill(const arrow::RecordBatch& batch) {
  return arrow::ExportRecordBatch(batch, &array, &schema);
}

}  // namespace fabric
