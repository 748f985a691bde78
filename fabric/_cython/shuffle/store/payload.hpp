// Messages as IPC bytes: what Flight sends, what edges that compress keep, and what lies in spill
// files.
//
// One job: rows to IPC messages and back, compressed or not, with the dictionaries they need.
// Payloads of plain rows share the buffers of their batch.
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
#include <vector>

namespace arrow::flight {
struct FlightPayload;
}
namespace arrow::ipc {
struct IpcPayload;
}

namespace fabric {

struct Message;
class MessageStream;

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

// Up to `n_messages` of a stream; what is stored as IPC bytes is read from them.
arrow::Status read_messages(MessageStream& from, size_t n_messages, std::vector<Message>& out);

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

constexpr int64_t SPILL_ALIGNMENT = 64;  // of messages in spill files

// The messages of one edge in spill files. Each brings its own dictionaries, so that any range of
// them can be read alone; without dictionaries the bytes of a file are what Flight sends. Used by
// one thread at a time.
class SpillCodec {
 public:
  SpillCodec(std::shared_ptr<arrow::Schema> schema, std::shared_ptr<arrow::util::Codec> codec);

  bool has_dictionaries() const { return mapper_.num_dicts() > 0; }

  arrow::Status encode(const arrow::RecordBatch& batch, arrow::io::OutputStream& out) const;

  // The rows; an error when the bytes are no such message, or of another schema.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> decode(
      std::shared_ptr<arrow::Buffer> bytes) const;

  // What Flight sends of a message without dictionaries.
  static arrow::Result<arrow::ipc::IpcPayload> payload(const std::shared_ptr<arrow::Buffer>& bytes);

 private:
  arrow::Status write(const arrow::ipc::IpcPayload& payload, arrow::io::OutputStream& out) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> decode_with_dictionaries(
      std::shared_ptr<arrow::Buffer> bytes) const;

  const std::shared_ptr<arrow::Schema> schema_;
  const arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::IpcWriteOptions options_;
};

}  // namespace fabric
