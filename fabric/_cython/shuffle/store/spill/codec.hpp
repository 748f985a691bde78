// Messages as the bytes of spill files.
//
// One job: to and from bytes. What is in which file is files.hpp's.
#pragma once
#include <arrow/io/type_fwd.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/options.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>

namespace arrow::ipc {
struct IpcPayload;
}

namespace fabric {

constexpr int64_t SPILL_ALIGNMENT = 64;

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
      std::shared_ptr<arrow::Buffer> bytes, const arrow::ipc::IpcReadOptions& options) const;

  const std::shared_ptr<arrow::Schema> schema_;
  const arrow::ipc::DictionaryFieldMapper mapper_;
  arrow::ipc::IpcWriteOptions options_;
};

}  // namespace fabric
