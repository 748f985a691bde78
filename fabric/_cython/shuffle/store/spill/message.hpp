// One message in a spill file: the dictionaries its rows need, then the rows, as IPC messages.
//
// One job: rows to such bytes and back. Every message brings its own dictionaries, so that any
// range of them can be read alone. Without dictionaries the bytes of a file are what Flight sends.
#pragma once
#include <cstring>
#include <optional>

#include "store/gathering.hpp"
#include "store/payload.hpp"
#include "wire/empty.hpp"

namespace fabric {

constexpr int64_t SPILL_ALIGNMENT = 64;

// Bytes of a message on their way to a file.
class Gathered final : public Gathering {
 public:
  using Pieces = std::vector<std::shared_ptr<arrow::Buffer>>;

  int64_t n_bytes() const { return position_; }
  Pieces take() { return std::move(pieces_); }
};

// Of one edge; used by one thread at a time.
class SpillCodec {
 public:
  SpillCodec(std::shared_ptr<arrow::Schema> schema, std::shared_ptr<arrow::util::Codec> codec)
      : schema_(std::move(schema)), mapper_(*schema_), options_(write_options(std::move(codec))) {
    options_.alignment = SPILL_ALIGNMENT;
  }

  bool has_dictionaries() const { return mapper_.num_dicts() > 0; }

  arrow::Status encode(const arrow::RecordBatch& batch, Gathered& out) const {
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

  // The rows; an error when the bytes are no such message, or of another schema.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> decode(
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

  // What Flight sends of a message without dictionaries.
  static arrow::Result<arrow::ipc::IpcPayload> payload(
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

 private:
  // The schema, then what one entry holds.
  class Messages : public arrow::ipc::MessageReader {
   public:
    Messages(std::shared_ptr<arrow::Buffer> schema, std::shared_ptr<arrow::Buffer> bytes)
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

  arrow::Status write(const arrow::ipc::IpcPayload& payload, Gathered& out) const {
    int32_t metadata_length = 0;
    return arrow::ipc::WriteIpcPayload(payload, options_, &out, &metadata_length);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> decode_with_dictionaries(
      std::shared_ptr<arrow::Buffer> bytes, const arrow::ipc::IpcReadOptions& options) const {
    ARROW_ASSIGN_OR_RAISE(auto schema, arrow::ipc::SerializeSchema(*schema_));
    ARROW_ASSIGN_OR_RAISE(
        auto reader,
        arrow::ipc::RecordBatchStreamReader::Open(
            std::make_unique<Messages>(std::move(schema), std::move(bytes)), options));
    std::shared_ptr<arrow::RecordBatch> rows;
    ARROW_RETURN_NOT_OK(reader->ReadNext(&rows));
    if (rows == nullptr) return arrow::Status::Invalid("it is empty");
    if (rows->schema()->Equals(*schema_, true)) return rows;
    // An extension type that Arrow does not know comes back as its storage.
    std::vector<std::shared_ptr<arrow::ArrayData>> columns;
    for (int i = 0; i < rows->num_columns(); ++i) {
      columns.push_back(typed(*rows->column_data(i), schema_->field(i)->type()));
    }
    return arrow::RecordBatch::Make(schema_, rows->num_rows(), std::move(columns));
  }

  static std::shared_ptr<arrow::ArrayData> typed(const arrow::ArrayData& data,
                                                 const std::shared_ptr<arrow::DataType>& type) {
    auto own = std::make_shared<arrow::ArrayData>(data);
    own->type = type;
    const arrow::DataType* storage = type.get();
    while (storage->id() == arrow::Type::EXTENSION) {
      storage = static_cast<const arrow::ExtensionType*>(storage)->storage_type().get();
    }
    for (size_t i = 0; i < own->child_data.size(); ++i) {
      own->child_data[i] = typed(*own->child_data[i], storage->field(static_cast<int>(i))->type());
    }
    if (storage->id() == arrow::Type::DICTIONARY && own->dictionary != nullptr) {
      own->dictionary = typed(*own->dictionary,
                              static_cast<const arrow::DictionaryType*>(storage)->value_type());
    }
    return own;
  }

  const std::shared_ptr<arrow::Schema> schema_;
  const arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::IpcWriteOptions options_;
};

}  // namespace fabric
