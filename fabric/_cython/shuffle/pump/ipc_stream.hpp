// Record batches with app_metadata over one Flight stream, in and out.
//
// One job: what `FlightClient` does between batches and a transport's stream, without its waits.
// Dictionaries travel as IPC dictionary messages. Messages of metadata alone are let through.
#pragma once
#include <arrow/flight/transport.h>
#include <arrow/flight/types.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "store/message.hpp"

namespace fabric {

using Stream = arrow::flight::internal::ClientDataStream;

// Reads a stream that outlives this.
class Incoming {
 public:
  explicit Incoming(Stream& stream) : stream_(stream) {}

  // The next message; false when the stream is over, well or not: `Stream::Finish` says.
  // A message of metadata alone has no batch.
  arrow::Result<bool> next(Message& out);

  // Of the rows; null before the first message.
  std::shared_ptr<arrow::Schema> schema() const;

  bool over() const { return over_; }

 private:
  class Messages;
  bool peek();

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
  arrow::Result<bool> begin(const std::shared_ptr<arrow::Schema>& schema);

  arrow::Result<bool> write(const arrow::RecordBatch& batch, std::string metadata);

  // A message of metadata alone.
  arrow::Result<bool> write_metadata(std::string metadata);

 private:
  class Payloads;
  arrow::Status send(const arrow::ipc::IpcPayload& ipc);
  arrow::Status address(arrow::flight::FlightPayload& payload);

  Stream& stream_;
  const arrow::flight::FlightDescriptor descriptor_;
  bool addressed_ = false, refused_ = false;
  std::string metadata_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace fabric
