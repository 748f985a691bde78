// Between a transport's stream and Arrow's IPC reader and writer.
//
// One job: messages of Flight as IPC messages with app_metadata, in and out.
#include "pump/ipc_stream.hpp"

#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include "store/payload.hpp"

namespace fabric {
namespace {

std::shared_ptr<arrow::Buffer> metadata_of(std::string bytes) {
  return bytes.empty() ? nullptr : arrow::Buffer::FromString(std::move(bytes));
}

std::string text_of(const std::shared_ptr<arrow::Buffer>& bytes) {
  return bytes == nullptr ? std::string() : bytes->ToString();
}

}  // namespace

class Incoming::Messages : public arrow::ipc::MessageReader {
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

arrow::Result<bool> Incoming::next(Message& out) {
  for (;;) {
    if (!peek()) return false;
    if (pending_.metadata == nullptr) {
      out = {text_of(pending_.app_metadata), nullptr};
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
  out = {text_of(last_metadata_), std::move(batch)};
  return true;
}

std::shared_ptr<arrow::Schema> Incoming::schema() const {
  return reader_ == nullptr ? nullptr : reader_->schema();
}

bool Incoming::peek() {
  if (has_pending_) return true;
  if (over_) return false;
  pending_ = {};
  has_pending_ = stream_.ReadData(&pending_);
  over_ = !has_pending_;
  return has_pending_;
}

class Outgoing::Payloads : public arrow::ipc::internal::IpcPayloadWriter {
 public:
  explicit Payloads(Outgoing& to) : to_(to) {}
  arrow::Status WritePayload(const arrow::ipc::IpcPayload& ipc) override { return to_.send(ipc); }
  arrow::Status Close() override { return arrow::Status::OK(); }

 private:
  Outgoing& to_;
};

arrow::Result<bool> Outgoing::begin(const std::shared_ptr<arrow::Schema>& schema) {
  auto opened = arrow::ipc::internal::OpenRecordBatchWriter(std::make_unique<Payloads>(*this),
                                                            schema);
  if (refused_) return false;
  ARROW_ASSIGN_OR_RAISE(writer_, std::move(opened));
  return true;
}

arrow::Result<bool> Outgoing::write(const arrow::RecordBatch& batch, std::string metadata) {
  metadata_ = std::move(metadata);
  const arrow::Status written = write_rows(*writer_, batch);
  if (refused_) return false;
  ARROW_RETURN_NOT_OK(written);
  return true;
}

arrow::Result<bool> Outgoing::write_metadata(std::string metadata) {
  arrow::flight::FlightPayload payload;
  ARROW_RETURN_NOT_OK(address(payload));
  payload.app_metadata = metadata_of(std::move(metadata));
  return stream_.WriteData(payload);
}

arrow::Status Outgoing::send(const arrow::ipc::IpcPayload& ipc) {
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

arrow::Status Outgoing::address(arrow::flight::FlightPayload& payload) {
  if (addressed_) return arrow::Status::OK();
  addressed_ = true;
  ARROW_ASSIGN_OR_RAISE(std::string bytes, descriptor_.SerializeToString());
  payload.descriptor = arrow::Buffer::FromString(std::move(bytes));
  return arrow::Status::OK();
}

}  // namespace fabric
