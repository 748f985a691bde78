// DoGet: a stream of messages as Flight payloads, for agents with headers, for anybody else as
// plain batches of at most 4 MiB.
//
// One job: messages to payloads. Dictionaries go as IPC dictionary messages, again when they
// change. A client that went away ends the stream within a second, also while it waits.
#pragma once
#include <arrow/flight/server.h>
#include <arrow/ipc/dictionary.h>

#include "flight/asking.hpp"
#include "flight/foreign.hpp"
#include "flight/gate.hpp"
#include "flight/watch.hpp"
#include "store/message.hpp"

namespace fabric {

using Payloads = std::deque<fl::FlightPayload>;

// Writes one schema and its batches as payloads.
class StreamWriter {
 public:
  StreamWriter(std::shared_ptr<arrow::Schema> schema, Payloads& out)
      : schema_(std::move(schema)), out_(out) {
    options_.use_threads = false;
  }

  arrow::Status begin() {
    auto sink = std::make_unique<Sink>(out_);
    return arrow::ipc::internal::OpenRecordBatchWriter(std::move(sink), schema_, options_)
        .Value(&writer_);
  }

  arrow::Status write(const arrow::RecordBatch& batch, std::string header) {
    if (batch.num_rows() == 0 && written_) {  // no dictionaries: empty ones would replace the last
      fl::FlightPayload payload;
      ARROW_RETURN_NOT_OK(
          arrow::ipc::GetRecordBatchPayload(batch, options_, &payload.ipc_message));
      out_.push_back(std::move(payload));
    } else {
      ARROW_RETURN_NOT_OK(writer_->WriteRecordBatch(batch));
    }
    written_ = true;
    if (!header.empty()) out_.back().app_metadata = arrow::Buffer::FromString(std::move(header));
    return arrow::Status::OK();
  }

  bool written() const { return written_; }

 private:
  struct Sink : arrow::ipc::internal::IpcPayloadWriter {
    explicit Sink(Payloads& to) : out(to) {}
    arrow::Status WritePayload(const arrow::ipc::IpcPayload& payload) override {
      out.emplace_back(nullptr, nullptr, payload);
      return arrow::Status::OK();
    }
    arrow::Status Close() override { return arrow::Status::OK(); }
    Payloads& out;
  };

  std::shared_ptr<arrow::Schema> schema_;
  Payloads& out_;
  arrow::ipc::IpcWriteOptions options_ = arrow::ipc::IpcWriteOptions::Defaults();
  std::unique_ptr<arrow::ipc::RecordBatchWriter> writer_;
  bool written_ = false;
};

class GetStream : public fl::FlightDataStream {
 public:
  GetStream(const Asking& ask, std::unique_ptr<MessageStream> messages,
            std::shared_ptr<arrow::Schema> schema, bool agent, std::shared_ptr<Inside> inside,
            std::shared_ptr<Watch> watch, const fl::ServerCallContext& context)
      : ask_(ask), messages_(std::move(messages)), schema_(std::move(schema)), agent_(agent),
        inside_(std::move(inside)), context_(context), writer_(schema_, out_),
        watched_(std::move(watch),
                 {[this] { return stopped(); }, [this] { messages_->cancel(); }}) {}

  std::shared_ptr<arrow::Schema> schema() override { return schema_; }

  arrow::Result<fl::FlightPayload> GetSchemaPayload() override {
    arrow::Status begun = ask_.outward(writer_.begin());
    ARROW_RETURN_NOT_OK(begun);
    return take();
  }

  arrow::Result<fl::FlightPayload> Next() override {
    while (out_.empty()) {
      const arrow::Result<bool> more = agent_ ? fill() : fill_plain();
      if (!more.ok()) return ask_.outward(because(more.status()));
      if (!*more) return fl::FlightPayload();  // without metadata: the end
    }
    return take();
  }

 private:
  bool stopped() const { return context_.is_cancelled() || inside_->closed(); }

  // A stream that was cancelled fails for the reason it was cancelled for.
  arrow::Status because(const arrow::Status& status) const {
    if (inside_->closed()) {
      return fault("PeerLostError", "this agent is shutting down; ask another one");
    }
    return context_.is_cancelled() ? fault("PeerLostError", "the client went away") : status;
  }

  fl::FlightPayload take() {
    fl::FlightPayload payload = std::move(out_.front());
    out_.pop_front();
    return payload;
  }

  arrow::Result<bool> next(Message& message) {
    if (stopped()) return fault("PeerLostError", "nobody waits for this stream any more");
    ARROW_ASSIGN_OR_RAISE(const bool more, messages_->next(message));
    if (more && message.batch == nullptr) {
      ARROW_ASSIGN_OR_RAISE(message.batch, arrow::RecordBatch::MakeEmpty(schema_));
    }
    return more;
  }

  arrow::Result<bool> fill() {
    Message message;
    ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
    if (more) ARROW_RETURN_NOT_OK(writer_.write(*message.batch, std::move(message.header)));
    return more;
  }

  // Rows only, and never quite nothing: readers fail on dictionaries that no batch brought.
  arrow::Result<bool> fill_plain() {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const BatchPtr piece, pieces_.next());
      if (piece != nullptr) {
        ARROW_RETURN_NOT_OK(writer_.write(*piece, ""));
        return true;
      }
      Message message;
      ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
      if (more && message.batch->num_rows() > 0) pieces_.put(std::move(message.batch));
      if (more) continue;
      if (writer_.written()) return false;
      ARROW_ASSIGN_OR_RAISE(const BatchPtr none, arrow::RecordBatch::MakeEmpty(schema_));
      ARROW_RETURN_NOT_OK(writer_.write(*none, ""));
      return true;
    }
  }

  Asking ask_;
  std::unique_ptr<MessageStream> messages_;
  std::shared_ptr<arrow::Schema> schema_;
  bool agent_;
  std::shared_ptr<Inside> inside_;
  const fl::ServerCallContext& context_;
  Payloads out_;
  StreamWriter writer_;
  Pieces pieces_;
  Watched watched_;  // last: it uses all of the above from another thread
};

}  // namespace fabric
