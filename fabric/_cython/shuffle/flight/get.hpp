// DoGet: a stream of messages as Flight payloads, for agents with headers, for anybody else as
// plain batches of at most 4 MiB.
//
// One job: messages to payloads. Dictionaries go as IPC dictionary messages, again when they
// change. A client that went away ends the stream within a second, also while it waits.
#pragma once
#include <arrow/flight/server.h>

#include "flight/asking.hpp"
#include "flight/foreign.hpp"
#include "flight/gate.hpp"
#include "flight/watch.hpp"
#include "store/payload.hpp"
#include "wire/empty.hpp"

namespace fabric {

class GetStream : public fl::FlightDataStream {
 public:
  GetStream(const Asking& ask, std::unique_ptr<MessageStream> messages,
            std::shared_ptr<arrow::Schema> schema, bool agent, bool tap,
            std::shared_ptr<Inside> inside, std::shared_ptr<Watch> watch,
            const fl::ServerCallContext& context)
      : ask_(ask), messages_(std::move(messages)), schema_(std::move(schema)), agent_(agent),
        tap_(tap), inside_(std::move(inside)), context_(context), awaited_(awaited_of(context)),
        writer_(schema_),
        watched_(std::move(watch), {[this] { return stopped() || messages_->overdue(); },
                                    [this] { messages_->cancel(); }}) {}

  std::shared_ptr<arrow::Schema> schema() override { return schema_; }

  arrow::Result<fl::FlightPayload> GetSchemaPayload() override {
    const OurTurn turn(awaited_);
    auto payload = writer_.schema();
    return payload.ok() ? std::move(payload) : ask_.outward(payload.status());
  }

  arrow::Result<fl::FlightPayload> Next() override {
    const OurTurn turn(awaited_);
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
    if (more && message.batch == nullptr && message.payload == nullptr) {
      ARROW_ASSIGN_OR_RAISE(message.batch, empty_rows(schema_));
    }
    return more;
  }

  arrow::Result<bool> fill() {
    Message message;
    ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
    if (more) ARROW_RETURN_NOT_OK(writer_.add(message, out_));
    return more;
  }

  // Rows only, and never quite nothing: readers fail on dictionaries that no batch brought. What a
  // tap says of its rows goes with each of them, and also without any.
  arrow::Result<bool> fill_plain() {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(BatchPtr piece, pieces_.next());
      if (piece != nullptr) return add_plain(std::move(piece));
      Message message;
      ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
      if (more && tap_) said_ = std::move(message.header);
      if (more && tap_ && message.batch->num_rows() == 0) return add_plain(message.batch);
      if (more && message.batch->num_rows() > 0) pieces_.put(std::move(message.batch));
      if (more) continue;
      if (sent_) return false;
      ARROW_ASSIGN_OR_RAISE(BatchPtr none, empty_rows(schema_));
      return add_plain(std::move(none));
    }
  }

  arrow::Result<bool> add_plain(BatchPtr batch) {
    sent_ = true;
    ARROW_RETURN_NOT_OK(writer_.add({said_, std::move(batch)}, out_));
    return true;
  }

  Asking ask_;
  std::unique_ptr<MessageStream> messages_;
  std::shared_ptr<arrow::Schema> schema_;
  bool agent_, tap_;
  std::string said_;  // by a tap
  std::shared_ptr<Inside> inside_;
  const fl::ServerCallContext& context_;
  Awaited* const awaited_;
  std::deque<fl::FlightPayload> out_;
  PayloadWriter writer_;
  Pieces pieces_;
  bool sent_ = false;
  Watched watched_;  // last: it uses all of the above from another thread
};

}  // namespace fabric
