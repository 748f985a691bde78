// Record batches with app_metadata over one Flight stream, in and out.
//
// One job: what `FlightClient` does between batches and a transport's stream, without its waits.
// Dictionaries travel as IPC dictionary messages. Messages of metadata alone are let through.
#pragma once
#include <arrow/flight/transport.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include "store/message.hpp"
#include "store/union_codes.hpp"
#include "wire/fault.hpp"

namespace fabric {

using Stream = arrow::flight::internal::ClientDataStream;

inline std::shared_ptr<arrow::Buffer> metadata_of(std::string bytes) {
  return bytes.empty() ? nullptr : arrow::Buffer::FromString(std::move(bytes));
}

// Reads a stream that outlives this.
class Incoming {
 public:
  explicit Incoming(Stream& stream) : stream_(stream) {}

  // The next message; false when the stream is over, well or not: `Stream::Finish` says.
  // A message of metadata alone has no batch.
  arrow::Result<bool> next(Message& out) {
    for (;;) {
      if (!peek()) return false;
      if (pending_.metadata == nullptr) {
        out = {text(pending_.app_metadata), nullptr};
        has_pending_ = false;
        return true;
      }
      if (reader_ != nullptr) break;
      auto options = arrow::ipc::IpcReadOptions::Defaults();
      options.use_threads = false;  // streams run side by side already
      ARROW_ASSIGN_OR_RAISE(reader_, arrow::ipc::RecordBatchStreamReader::Open(
                                         std::make_unique<Messages>(*this), options));
    }
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
    if (batch == nullptr) return false;
    out = {text(last_metadata_), std::move(batch)};
    return true;
  }

  // Of the rows; null before the first message.
  std::shared_ptr<arrow::Schema> schema() const {
    return reader_ == nullptr ? nullptr : reader_->schema();
  }

  bool over() const { return over_; }

 private:
  class Messages : public arrow::ipc::MessageReader {
   public:
    explicit Messages(Incoming& from) : from_(from) {}
    arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override {
      if (!from_.peek()) return nullptr;
      from_.has_pending_ = false;
      if (from_.pending_.metadata == nullptr) {
        return arrow::Status::Invalid("a message of the stream holds no rows");
      }
      from_.last_metadata_ = std::move(from_.pending_.app_metadata);
      return from_.pending_.OpenMessage();
    }

   private:
    Incoming& from_;
  };

  bool peek() {
    if (has_pending_) return true;
    if (over_) return false;
    pending_ = {};
    has_pending_ = stream_.ReadData(&pending_);
    over_ = !has_pending_;
    return has_pending_;
  }

  static std::string text(const std::shared_ptr<arrow::Buffer>& bytes) {
    return bytes == nullptr ? std::string() : bytes->ToString();
  }

  Stream& stream_;
  arrow::flight::internal::FlightData pending_;
  bool has_pending_ = false, over_ = false;
  std::shared_ptr<arrow::Buffer> last_metadata_;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
};

// Writes a stream that outlives this. False from a write: the server takes no more, `Finish` says
// why.
class Outgoing {
 public:
  // `descriptor` goes with the first message.
  Outgoing(Stream& stream, const arrow::flight::FlightDescriptor& descriptor)
      : stream_(stream), descriptor_(descriptor) {}

  // Once, before rows.
  arrow::Result<bool> begin(const std::shared_ptr<arrow::Schema>& schema) {
    auto opened = arrow::ipc::internal::OpenRecordBatchWriter(std::make_unique<Payloads>(*this),
                                                              schema);
    if (refused_) return false;
    ARROW_ASSIGN_OR_RAISE(writer_, std::move(opened));
    return true;
  }

  arrow::Result<bool> write(const arrow::RecordBatch& batch, std::string metadata) {
    metadata_ = std::move(metadata);
    const arrow::Status written = write_rows(*writer_, batch);
    if (refused_) return false;
    ARROW_RETURN_NOT_OK(written);
    return true;
  }

  // A message of metadata alone.
  arrow::Result<bool> write_metadata(std::string metadata) {
    arrow::flight::FlightPayload payload;
    ARROW_RETURN_NOT_OK(address(payload));
    payload.app_metadata = metadata_of(std::move(metadata));
    return stream_.WriteData(payload);
  }

 private:
  class Payloads : public arrow::ipc::internal::IpcPayloadWriter {
   public:
    explicit Payloads(Outgoing& to) : to_(to) {}
    arrow::Status WritePayload(const arrow::ipc::IpcPayload& ipc) override { return to_.send(ipc); }
    arrow::Status Close() override { return arrow::Status::OK(); }

   private:
    Outgoing& to_;
  };

  arrow::Status send(const arrow::ipc::IpcPayload& ipc) {
    arrow::flight::FlightPayload payload;
    ARROW_RETURN_NOT_OK(address(payload));
    payload.ipc_message = ipc;
    if (ipc.type == arrow::ipc::MessageType::RECORD_BATCH) {
      payload.app_metadata = metadata_of(std::move(metadata_));
      metadata_.clear();
    }
    ARROW_ASSIGN_OR_RAISE(const bool taken, stream_.WriteData(payload));
    refused_ = !taken;
    return taken ? arrow::Status::OK() : arrow::Status::IOError("the server takes no more");
  }

  arrow::Status address(arrow::flight::FlightPayload& payload) {
    if (addressed_) return arrow::Status::OK();
    addressed_ = true;
    ARROW_ASSIGN_OR_RAISE(std::string bytes, descriptor_.SerializeToString());
    payload.descriptor = arrow::Buffer::FromString(std::move(bytes));
    return arrow::Status::OK();
  }

  Stream& stream_;
  const arrow::flight::FlightDescriptor descriptor_;
  bool addressed_ = false, refused_ = false;
  std::string metadata_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace fabric
