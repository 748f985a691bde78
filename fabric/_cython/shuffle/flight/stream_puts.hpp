// DoPut into streams that jobs read: ["stream", name] and ["stream", name, writer].
//
// One job: find the queue, check what comes, and tell the client what is safe. The first message to
// the client is {"next": n, "acknowledged": n}: so many messages of this writer are known, so it
// goes on with the n-th; then {"acknowledged": n} whenever that grows; {"ended": true} when nobody
// reads it any more. The put ends well once all of its messages are safe. A writer's name belongs
// to one split, for ever.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace arrow::flight {
class FlightMessageReader;
}

namespace fabric {

namespace fl = arrow::flight;

using Cancelled = std::function<bool()>;  // as in `handlers.hpp`

// Where puts into streams go: the door between the server and the queues that jobs read.
class StreamDoor {
 public:
  virtual ~StreamDoor() = default;
  // Takes the whole stream of a put to `path`, and acknowledges its messages as they are safe.
  virtual arrow::Status take(const std::vector<std::string>& path, bool agent,
                             fl::FlightMessageReader& reader, fl::FlightMetadataWriter& writer,
                             const Cancelled& cancelled) = 0;
};

bool is_stream(const fl::FlightDescriptor& descriptor);

struct StreamMessage {
  std::string writer;
  uint64_t number = 0;
  std::shared_ptr<arrow::RecordBatch> batch;
};

// What clients have put into a stream and nobody has read yet, and what is safe of it: a bounded
// queue of messages, counted by writer. Puts wait for room; readers never wait. A writer with a
// name has its messages numbered for ever, so that after a failure it goes on where the last
// checkpoint stands. Thread-safe.
class StreamQueue {
 public:
  StreamQueue(std::string name, std::shared_ptr<arrow::Schema> schema, uint32_t split,
              uint32_t n_splits, int64_t bytes_max, bool at_once);

  const std::string name;
  const std::shared_ptr<arrow::Schema> schema;
  const uint32_t split, n_splits;

  // Begin to put as `writer` (empty: as somebody new); the name to put under, and how many of its
  // messages are here already.
  arrow::Result<std::pair<std::string, uint64_t>> attach(std::string writer);
  void detach(const std::string& writer);

  // Waits for room.
  arrow::Status push(const std::string& writer, std::shared_ptr<arrow::RecordBatch> batch,
                     const Cancelled& cancelled);

  // The next message; false when there is none.
  bool take(StreamMessage& out);

  // So many messages of `writer` will not be asked for again.
  void acknowledge(const std::string& writer, uint64_t count);

  // Before the first put: so many messages of `writer` were read in an earlier run.
  void seek(const std::string& writer, uint64_t count);

  // Waits until more than `told` messages of `writer` are safe, and says how many; false at the
  // end of the stream or when `over`.
  bool wait_safe(const std::string& writer, uint64_t& told, const std::atomic<bool>& over);

  // Waits until all messages of `writer` are safe; how many those are.
  arrow::Result<uint64_t> wait_all_safe(const std::string& writer, const Cancelled& cancelled);

  void wake() { changed_.notify_all(); }

  // Nobody reads it any more: puts end with an error.
  void close();

 private:
  struct Writer {
    uint64_t received = 0, safe = 0;
    bool writing = false;
  };
  struct Waiting {
    StreamMessage message;
    int64_t n_bytes;
  };

  arrow::Status over() const;

  const int64_t bytes_max_;
  const bool at_once_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::map<std::string, Writer> writers_;
  int64_t bytes_ = 0;
  uint64_t n_unnamed_ = 0;
  bool closed_ = false;
};

using StreamQueuePtr = std::shared_ptr<StreamQueue>;

class StreamPuts : public StreamDoor {
 public:
  void add(const StreamQueuePtr& queue);
  void remove(const StreamQueuePtr& queue);

  arrow::Status take(const std::vector<std::string>& path, bool agent,
                     fl::FlightMessageReader& reader, fl::FlightMetadataWriter& writer,
                     const Cancelled& cancelled) override;

 private:
  struct Put;

  arrow::Result<StreamQueuePtr> find(const std::string& name, const std::string& writer);
  static arrow::Status run(const Put& put, uint64_t next);
  static arrow::Result<uint64_t> read_all(const Put& put);

  std::mutex mutex_;
  std::set<StreamQueuePtr> queues_;
};

}  // namespace fabric
