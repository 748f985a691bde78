// Type codes of unions with room behind them, for Arrow's IPC writer.
//
// One job: nothing foreign on a wire. Arrow 25 writes the codes of a slice up to the next multiple
// of 64 bytes without looking where their buffer ends (`GetTruncatedBuffer` bounds the length, not
// the end): other memory of this process went out behind the last rows, or was not there to read.
// Codes that lack the room are copied, all else is shared.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>

namespace fabric {

inline const arrow::DataType& stored_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::EXTENSION) return type;
  return stored_type(*static_cast<const arrow::ExtensionType&>(type).storage_type());
}

inline bool has_union(const arrow::DataType& of) {
  const arrow::DataType& type = stored_type(of);
  if (arrow::is_union(type.id())) return true;
  if (type.id() == arrow::Type::DICTIONARY) {
    return has_union(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& field) { return has_union(*field->type()); });
}

inline bool has_union(const arrow::Schema& schema) {
  return std::any_of(schema.fields().begin(), schema.fields().end(),
                     [](const auto& field) { return has_union(*field->type()); });
}

// However its parents slice it: they name no row behind its end.
inline arrow::Result<std::shared_ptr<arrow::ArrayData>> with_room(
    const std::shared_ptr<arrow::ArrayData>& data) {
  constexpr int64_t ROOM = 64;
  if (!has_union(*data->type)) return data;
  auto own = std::make_shared<arrow::ArrayData>(*data);
  for (auto& child : own->child_data) {
    ARROW_ASSIGN_OR_RAISE(child, with_room(child));
  }
  if (own->dictionary != nullptr) {
    ARROW_ASSIGN_OR_RAISE(own->dictionary, with_room(own->dictionary));
  }
  const int64_t n_codes = data->offset + data->length;
  if (!arrow::is_union(stored_type(*data->type).id()) || n_codes == 0) return own;
  std::shared_ptr<arrow::Buffer>& codes = own->buffers[1];
  if (codes->size() >= n_codes + ROOM) return own;
  ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::Buffer> made, arrow::AllocateBuffer(n_codes + ROOM));
  std::memcpy(made->mutable_data(), codes->data(), static_cast<size_t>(n_codes));
  std::memset(made->mutable_data() + n_codes, 0, ROOM);
  codes = std::move(made);
  return own;
}

// What the IPC writer may be given instead of a batch whose schema has unions.
inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> with_room(
    const arrow::RecordBatch& batch) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), with_room(batch.column_data(i)));
  }
  return arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
}

inline arrow::Status write_rows(arrow::ipc::RecordBatchWriter& to,
                                const arrow::RecordBatch& batch) {
  if (!has_union(*batch.schema())) return to.WriteRecordBatch(batch);
  ARROW_ASSIGN_OR_RAISE(const auto roomy, with_room(batch));
  return to.WriteRecordBatch(*roomy);
}

}  // namespace fabric
