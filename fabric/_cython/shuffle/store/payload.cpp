// Payloads by Arrow's IPC writer, and what it must be given instead of some batches.
#include "store/payload.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/compare.h>
#include <arrow/extension_type.h>
#include <arrow/flight/types.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "store/message.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

// Type codes of unions get room behind them, so that nothing foreign goes on a wire. Arrow 25
// writes the codes of a slice up to the next multiple of 64 bytes without looking where their
// buffer ends (`GetTruncatedBuffer` bounds the length, not the end): other memory of this process
// went out behind the last rows, or was not there to read. Codes that lack the room are copied, all
// else is shared.

const arrow::DataType& stored_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::EXTENSION) return type;
  return stored_type(*static_cast<const arrow::ExtensionType&>(type).storage_type());
}

bool has_union(const arrow::DataType& of) {
  const arrow::DataType& type = stored_type(of);
  if (arrow::is_union(type.id())) return true;
  if (type.id() == arrow::Type::DICTIONARY) {
    return has_union(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return std::any_of(type.fields().begin(), type.fields().end(),
                     [](const auto& field) { return has_union(*field->type()); });
}

bool has_union(const arrow::Schema& schema) {
  return std::any_of(schema.fields().begin(), schema.fields().end(),
                     [](const auto& field) { return has_union(*field->type()); });
}

// However its parents slice it: they name no row behind its end.
arrow::Result<std::shared_ptr<arrow::ArrayData>> with_room(
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
arrow::Result<std::shared_ptr<arrow::RecordBatch>> with_room(const arrow::RecordBatch& batch) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), with_room(batch.column_data(i)));
  }
  return arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
}

bool is_same_dictionary(const arrow::Array& one, const arrow::Array& other) {
  if (one.data() == other.data()) return true;
  const auto exactly = arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  return one.length() == other.length() && one.Equals(other, exactly);
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::util::Codec>> codec_named(const std::string& name) {
  if (name.empty()) return nullptr;
  if (std::ranges::find(CODECS, name) == CODECS.end()) {
    return fault("InternalError", "an edge can't be compressed by '" + name + "'");
  }
  const auto kind = name == "lz4" ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD;
  ARROW_ASSIGN_OR_RAISE(auto codec, arrow::util::Codec::Create(kind));
  return std::shared_ptr<arrow::util::Codec>(std::move(codec));
}

arrow::ipc::IpcWriteOptions write_options(std::shared_ptr<arrow::util::Codec> codec) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;  // threads of gRPC are many enough
  options.codec = std::move(codec);
  if (options.codec != nullptr) options.min_space_savings = 0.05;  // noise goes as it is
  return options;
}

arrow::Result<arrow::ipc::IpcPayload> payload_of(
    const arrow::RecordBatch& batch, const arrow::ipc::IpcWriteOptions& options) {
  arrow::ipc::IpcPayload payload;
  if (!has_union(*batch.schema())) {
    ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchPayload(batch, options, &payload));
    return payload;
  }
  ARROW_ASSIGN_OR_RAISE(const auto roomy, with_room(batch));
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchPayload(*roomy, options, &payload));
  return payload;
}

arrow::Result<arrow::ipc::IpcPayload> dictionary_payload_of(
    int64_t id, const std::shared_ptr<arrow::Array>& dictionary,
    const arrow::ipc::IpcWriteOptions& options) {
  arrow::ipc::IpcPayload payload;
  ARROW_ASSIGN_OR_RAISE(auto roomy, with_room(dictionary->data()));
  ARROW_RETURN_NOT_OK(arrow::ipc::GetDictionaryPayload(id, arrow::MakeArray(std::move(roomy)),
                                                       options, &payload));
  return payload;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch_of_payload(
    const arrow::ipc::IpcPayload& payload, const std::shared_ptr<arrow::Schema>& schema) {
  const int64_t n_bytes = payload.body_length + 4096;
  ARROW_ASSIGN_OR_RAISE(auto sink, arrow::io::BufferOutputStream::Create(n_bytes));
  int32_t metadata_length = 0;
  ARROW_RETURN_NOT_OK(
      arrow::ipc::WriteIpcPayload(payload, write_options(nullptr), sink.get(), &metadata_length));
  ARROW_ASSIGN_OR_RAISE(auto bytes, sink->Finish());
  arrow::io::BufferReader reader(bytes);
  ARROW_ASSIGN_OR_RAISE(auto message, arrow::ipc::ReadMessage(&reader));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  const arrow::ipc::DictionaryMemo none;
  return arrow::ipc::ReadRecordBatch(*message, schema, &none, options);
}

arrow::Status write_rows(arrow::ipc::RecordBatchWriter& to, const arrow::RecordBatch& batch) {
  if (!has_union(*batch.schema())) return to.WriteRecordBatch(batch);
  ARROW_ASSIGN_OR_RAISE(const auto roomy, with_room(batch));
  return to.WriteRecordBatch(*roomy);
}

PayloadWriter::PayloadWriter(std::shared_ptr<arrow::Schema> schema)
    : schema_(std::move(schema)), mapper_(*schema_), options_(write_options(nullptr)) {}

arrow::Result<arrow::flight::FlightPayload> PayloadWriter::schema() const {
  arrow::flight::FlightPayload out;
  ARROW_RETURN_NOT_OK(
      arrow::ipc::GetSchemaPayload(*schema_, options_, mapper_, &out.ipc_message));
  return out;
}

arrow::Status PayloadWriter::add(const Message& message,
                                 std::deque<arrow::flight::FlightPayload>& out) {
  if (mapper_.num_dicts() > 0) ARROW_RETURN_NOT_OK(add_dictionaries(*message.batch, out));
  arrow::flight::FlightPayload rows;
  if (message.payload != nullptr) {
    rows.ipc_message = *message.payload;
  } else {
    ARROW_ASSIGN_OR_RAISE(rows.ipc_message, payload_of(*message.batch, options_));
  }
  if (!message.header.empty()) rows.app_metadata = arrow::Buffer::FromString(message.header);
  out.push_back(std::move(rows));
  return arrow::Status::OK();
}

arrow::Status PayloadWriter::add_dictionaries(const arrow::RecordBatch& batch,
                                              std::deque<arrow::flight::FlightPayload>& out) {
  ARROW_ASSIGN_OR_RAISE(auto found, arrow::ipc::CollectDictionaries(batch, mapper_));
  for (auto& [id, dictionary] : found) {
    std::shared_ptr<arrow::Array>& sent = sent_[id];
    if (sent != nullptr && (batch.num_rows() == 0 || is_same_dictionary(*sent, *dictionary))) {
      continue;
    }
    arrow::flight::FlightPayload values;
    ARROW_ASSIGN_OR_RAISE(values.ipc_message, dictionary_payload_of(id, dictionary, options_));
    out.push_back(std::move(values));
    sent = std::move(dictionary);
  }
  return arrow::Status::OK();
}

}  // namespace fabric
