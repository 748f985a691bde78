// What travels on an edge, and a stream of it.
//
// One job: the shape that stores, rings, servers and pumps hand to each other.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>

namespace arrow::ipc {
struct IpcPayload;
}

namespace fabric {

// Of messages or of all that one task attempt wrote, in decoded bytes.
struct Totals {
  int64_t rows = 0, bytes = 0;  // a broadcast row counts once
};

// `header` is an encoded EdgeHeader; events ride on a batch of no rows, plain rows may have none.
// An edge that compresses stores its rows as IPC bytes: then `payload` is what to send, and `batch`
// may be null (only where the schema holds no dictionary). `PayloadWriter` sends either.
struct Message {
  std::string header;
  std::shared_ptr<arrow::RecordBatch> batch;
  std::shared_ptr<const arrow::ipc::IpcPayload> payload = nullptr;
};

// Messages in order; one thread reads. `cancel` may come from another one and ends a wait.
class MessageStream {
 public:
  virtual ~MessageStream() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  // The next message; false when the stream is over.
  virtual arrow::Result<bool> next(Message& out) = 0;
  virtual void cancel() {}
  // Whether others wait for its reader, and have waited for too long: then it is cancelled.
  virtual bool overdue() { return false; }
};

}  // namespace fabric
