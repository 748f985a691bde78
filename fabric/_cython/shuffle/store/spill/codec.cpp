// Entries of spill files by Arrow's IPC writer and readers.
#include "store/spill/codec.hpp"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/extension_type.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstring>
#include <utility>
#include <vector>

#include "store/payload.hpp"

namespace fabric {
namespace {

// The schema, then what one entry holds.
class EntryMessages : public arrow::ipc::MessageReader {
 public:
  EntryMessages(std::shared_ptr<arrow::Buffer> schema, std::shared_ptr<arrow::Buffer> bytes)
      : schema_(std::move(schema)), rest_(std::move(bytes)) {}
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override {
    if (begun_) return arrow::ipc::ReadMessage(&rest_);
    begun_ = true;
    return arrow::ipc::ReadMessage(&schema_);
  }

 private:
  arrow::io::BufferReader schema_, rest_;
  bool begun_ = false;
};

std::shared_ptr<arrow::ArrayData> retyped(const arrow::ArrayData& data,
                                          const std::shared_ptr<arrow::DataType>& type) {
  auto own = std::make_shared<arrow::ArrayData>(data);
  own->type = type;
  const arrow::DataType* storage = type.get();
  while (storage->id() == arrow::Type::EXTENSION) {
    storage = static_cast<const arrow::ExtensionType*>(storage)->storage_type().get();
  }
  for (size_t i = 0; i < own->child_data.size(); ++i) {
    own->child_data[i] = retyped(*own->child_data[i], storage->field(static_cast<int>(i))->type());
  }
  if (storage->id() == arrow::Type::DICTIONARY && own->dictionary != nullptr) {
    own->dictionary = retyped(*own->dictionary,
                              static_cast<const arrow::DictionaryType*>(storage)->value_type());
  }
  return own;
}

}  // namespace

SpillCodec::SpillCodec(std::shared_ptr<arrow::Schema> schema,
                       std::shared_ptr<arrow::util::Codec> codec)
    : schema_(std::move(schema)), mapper_(*schema_), options_(write_options(std::move(codec))) {
  options_.alignment = SPILL_ALIGNMENT;
}

arrow::Status SpillCodec::encode(const arrow::RecordBatch& batch,
                                 arrow::io::OutputStream& out) const {
  if (has_dictionaries()) {
    ARROW_ASSIGN_OR_RAISE(auto found, arrow::ipc::CollectDictionaries(batch, mapper_));
    for (const auto& [id, dictionary] : found) {
      ARROW_ASSIGN_OR_RAISE(const auto values, dictionary_payload_of(id, dictionary, options_));
      ARROW_RETURN_NOT_OK(write(values, out));
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto rows, payload_of(batch, options_));
  return write(rows, out);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SpillCodec::decode(
    std::shared_ptr<arrow::Buffer> bytes) const {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  if (has_dictionaries()) return decode_with_dictionaries(std::move(bytes), options);
  arrow::io::BufferReader in(std::move(bytes));
  ARROW_ASSIGN_OR_RAISE(const auto message, arrow::ipc::ReadMessage(&in));
  if (message == nullptr) return arrow::Status::Invalid("it is empty");
  const arrow::ipc::DictionaryMemo none;
  return arrow::ipc::ReadRecordBatch(*message, schema_, &none, options);
}

arrow::Result<arrow::ipc::IpcPayload> SpillCodec::payload(
    const std::shared_ptr<arrow::Buffer>& bytes) {
  int32_t lead[2] = {0, 0};
  constexpr int64_t LEAD = sizeof lead;
  if (bytes->size() >= LEAD) std::memcpy(lead, bytes->data(), sizeof lead);
  const int64_t body = LEAD + lead[1];
  if (lead[0] != -1 || lead[1] <= 0 || body > bytes->size()) {
    return arrow::Status::Invalid("it is no message");
  }
  arrow::ipc::IpcPayload found;
  found.type = arrow::ipc::MessageType::RECORD_BATCH;
  found.metadata = arrow::SliceBuffer(bytes, LEAD, lead[1]);
  found.body_length = bytes->size() - body;
  found.raw_body_length = found.body_length;
  if (found.body_length > 0) found.body_buffers = {arrow::SliceBuffer(bytes, body)};
  return found;
}

arrow::Status SpillCodec::write(const arrow::ipc::IpcPayload& payload,
                                arrow::io::OutputStream& out) const {
  int32_t metadata_length = 0;
  return arrow::ipc::WriteIpcPayload(payload, options_, &out, &metadata_length);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SpillCodec::decode_with_dictionaries(
    std::shared_ptr<arrow::Buffer> bytes, const arrow::ipc::IpcReadOptions& options) const {
  ARROW_ASSIGN_OR_RAISE(auto schema, arrow::ipc::SerializeSchema(*schema_));
  ARROW_ASSIGN_OR_RAISE(
      auto reader,
      arrow::ipc::RecordBatchStreamReader::Open(
          std::make_unique<EntryMessages>(std::move(schema), std::move(bytes)), options));
  std::shared_ptr<arrow::RecordBatch> rows;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&rows));
  if (rows == nullptr) return arrow::Status::Invalid("it is empty");
  if (rows->schema()->Equals(*schema_, true)) return rows;
  // An extension type that Arrow does not know comes back as its storage.
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (int i = 0; i < rows->num_columns(); ++i) {
    columns.push_back(retyped(*rows->column_data(i), schema_->field(i)->type()));
  }
  return arrow::RecordBatch::Make(schema_, rows->num_rows(), std::move(columns));
}

}  // namespace fabric
