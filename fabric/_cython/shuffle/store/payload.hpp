// Messages as IPC payloads: what Flight sends, and what edges that compress keep.
//
// One job: rows to IPC bytes, compressed or not, and the dictionaries a stream must have brought
// before them. Payloads of plain rows share the buffers of their batch.
#pragma once
#include <arrow/flight/types.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "store/message.hpp"
#include "store/union_codes.hpp"
#include "wire/fault.hpp"

namespace fabric {

// What an edge may name; "" leaves rows as they are.
constexpr std::array<std::string_view, 3> CODECS = {"", "lz4", "zstd"};

// The codec of that name; null for "".
inline arrow::Result<std::shared_ptr<arrow::util::Codec>> codec_named(const std::string& name) {
  if (name.empty()) return nullptr;
  if (std::ranges::find(CODECS, name) == CODECS.end()) {
    return fault("InternalError", "an edge can't be compressed by '" + name + "'");
  }
  const auto kind = name == "lz4" ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD;
  ARROW_ASSIGN_OR_RAISE(auto codec, arrow::util::Codec::Create(kind));
  return std::shared_ptr<arrow::util::Codec>(std::move(codec));
}

inline arrow::ipc::IpcWriteOptions write_options(std::shared_ptr<arrow::util::Codec> codec) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;  // threads of gRPC are many enough
  options.codec = std::move(codec);
  if (options.codec != nullptr) options.min_space_savings = 0.05;  // noise goes as it is
  return options;
}

inline arrow::Result<arrow::ipc::IpcPayload> payload_of(
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

inline arrow::Result<arrow::ipc::IpcPayload> dictionary_payload_of(
    int64_t id, const std::shared_ptr<arrow::Array>& dictionary,
    const arrow::ipc::IpcWriteOptions& options) {
  arrow::ipc::IpcPayload payload;
  ARROW_ASSIGN_OR_RAISE(auto roomy, with_room(dictionary->data()));
  ARROW_RETURN_NOT_OK(arrow::ipc::GetDictionaryPayload(id, arrow::MakeArray(std::move(roomy)),
                                                       options, &payload));
  return payload;
}

// The rows of stored IPC bytes, for those who do not send them; of schemas without dictionaries.
inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch_of_payload(
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

// What one stream sends; used by one thread.
class PayloadWriter {
 public:
  explicit PayloadWriter(std::shared_ptr<arrow::Schema> schema)
      : schema_(std::move(schema)), mapper_(*schema_), options_(write_options(nullptr)) {}

  // The first payload of every stream.
  arrow::Result<arrow::flight::FlightPayload> schema() const {
    arrow::flight::FlightPayload out;
    ARROW_RETURN_NOT_OK(
        arrow::ipc::GetSchemaPayload(*schema_, options_, mapper_, &out.ipc_message));
    return out;
  }

  // Append what `message` needs: dictionaries that changed, then its rows under its header.
  arrow::Status add(const Message& message, std::deque<arrow::flight::FlightPayload>& out) {
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

 private:
  arrow::Status add_dictionaries(const arrow::RecordBatch& batch,
                                 std::deque<arrow::flight::FlightPayload>& out) {
    ARROW_ASSIGN_OR_RAISE(auto found, arrow::ipc::CollectDictionaries(batch, mapper_));
    for (auto& [id, dictionary] : found) {
      std::shared_ptr<arrow::Array>& sent = sent_[id];
      if (sent != nullptr && (batch.num_rows() == 0 || is_same(*sent, *dictionary))) continue;
      arrow::flight::FlightPayload values;
      ARROW_ASSIGN_OR_RAISE(values.ipc_message, dictionary_payload_of(id, dictionary, options_));
      out.push_back(std::move(values));
      sent = std::move(dictionary);
    }
    return arrow::Status::OK();
  }

  static bool is_same(const arrow::Array& one, const arrow::Array& other) {
    if (one.data() == other.data()) return true;
    const auto exactly =
        arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
    return one.length() == other.length() && one.Equals(other, exactly);
  }

  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::IpcWriteOptions options_;
  std::map<int64_t, std::shared_ptr<arrow::Array>> sent_;  // the last dictionary of each id
};

}  // namespace fabric
