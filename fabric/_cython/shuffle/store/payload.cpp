// Payloads by Arrow's IPC writer, and what it must be given instead of some batches.
#include "store/payload.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/compare.h>
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
#include "store/values.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

// Type codes of unions get room behind them, so that nothing foreign goes on a wire. Arrow 25
// writes the codes of a slice up to the next multiple of 64 bytes without looking where their
// buffer ends (`GetTruncatedBuffer` bounds the length, not the end): other memory of this process
// went out behind the last rows, or was not there to read. Codes that lack the room are copied, all
// else is shared.

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

arrow::ipc::IpcReadOptions read_options() {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  return options;
}

// The schema, then what one entry of a spill file holds.
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
  const arrow::DataType& storage = stored_type(*type);
  for (size_t i = 0; i < own->child_data.size(); ++i) {
    own->child_data[i] = retyped(*own->child_data[i], storage.field(static_cast<int>(i))->type());
  }
  if (storage.id() == arrow::Type::DICTIONARY && own->dictionary != nullptr) {
    own->dictionary = retyped(*own->dictionary,
                              static_cast<const arrow::DictionaryType&>(storage).value_type());
  }
  return own;
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
  const arrow::ipc::DictionaryMemo none;
  return arrow::ipc::ReadRecordBatch(*message, schema, &none, read_options());
}

arrow::Status read_messages(MessageStream& from, size_t n_messages, std::vector<Message>& out) {
  Message message;
  while (out.size() < n_messages) {
    ARROW_ASSIGN_OR_RAISE(const bool more, from.next(message));
    if (!more) break;
    if (message.batch == nullptr) {
      ARROW_ASSIGN_OR_RAISE(message.batch, batch_of_payload(*message.payload, from.schema()));
    }
    out.push_back(std::move(message));
  }
  return arrow::Status::OK();
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
  if (has_dictionaries()) return decode_with_dictionaries(std::move(bytes));
  arrow::io::BufferReader in(std::move(bytes));
  ARROW_ASSIGN_OR_RAISE(const auto message, arrow::ipc::ReadMessage(&in));
  if (message == nullptr) return arrow::Status::Invalid("it is empty");
  const arrow::ipc::DictionaryMemo none;
  return arrow::ipc::ReadRecordBatch(*message, schema_, &none, read_options());
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
    std::shared_ptr<arrow::Buffer> bytes) const {
  ARROW_ASSIGN_OR_RAISE(auto schema, arrow::ipc::SerializeSchema(*schema_));
  ARROW_ASSIGN_OR_RAISE(
      auto reader,
      arrow::ipc::RecordBatchStreamReader::Open(
          std::make_unique<EntryMessages>(std::move(schema), std::move(bytes)), read_options()));
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
