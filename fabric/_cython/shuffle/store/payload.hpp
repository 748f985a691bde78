// Messages as IPC bytes: what Flight sends, and what edges that compress keep.
//
// One job: rows to IPC messages, compressed or not, with the dictionaries they need. Payloads of
// plain rows share the buffers of their batch.
#pragma once
#include <arrow/io/type_fwd.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/type_fwd.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace arrow::flight {
struct FlightPayload;
}
namespace arrow::ipc {
struct IpcPayload;
}

namespace fabric {

struct Message;

// What an edge may name; "" leaves rows as they are.
constexpr std::array<std::string_view, 3> CODECS = {"", "lz4", "zstd"};

// The codec of that name; null for "".
arrow::Result<std::shared_ptr<arrow::util::Codec>> codec_named(const std::string& name);

arrow::ipc::IpcWriteOptions write_options(std::shared_ptr<arrow::util::Codec> codec);

arrow::Result<arrow::ipc::IpcPayload> payload_of(const arrow::RecordBatch& batch,
                                                 const arrow::ipc::IpcWriteOptions& options);

arrow::Result<arrow::ipc::IpcPayload> dictionary_payload_of(
    int64_t id, const std::shared_ptr<arrow::Array>& dictionary,
    const arrow::ipc::IpcWriteOptions& options);

// The rows of stored IPC bytes, for those who do not send them; of schemas without dictionaries.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch_of_payload(
    const arrow::ipc::IpcPayload& payload, const std::shared_ptr<arrow::Schema>& schema);

// Like `to.WriteRecordBatch`, which must not be given unions.
arrow::Status write_rows(arrow::ipc::RecordBatchWriter& to, const arrow::RecordBatch& batch);

// What one stream sends: rows, behind the dictionaries it must have brought before them. Used by
// one thread.
class PayloadWriter {
 public:
  explicit PayloadWriter(std::shared_ptr<arrow::Schema> schema);

  // The first payload of every stream.
  arrow::Result<arrow::flight::FlightPayload> schema() const;

  // Append what `message` needs: dictionaries that changed, then its rows under its header.
  arrow::Status add(const Message& message, std::deque<arrow::flight::FlightPayload>& out);

 private:
  arrow::Status add_dictionaries(const arrow::RecordBatch& batch,
                                 std::deque<arrow::flight::FlightPayload>& out);

  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::IpcWriteOptions options_;
  std::map<int64_t, std::shared_ptr<arrow::Array>> sent_;  // the last dictionary of each id
};

}  // namespace fabric
