// The queues of streams, and puts into them.
#include "flight/stream_puts.hpp"

#include <arrow/flight/server.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <chrono>
#include <thread>

#include "flight/strangers.hpp"
#include "flight/paths.hpp"
#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr size_t STREAM_WRITERS_MAX = 10000;
constexpr std::chrono::milliseconds STREAM_PATIENCE{250};

arrow::Status gone() {
  return fault("PeerLostError", "the put broke off: its client went away before its end, or "
                                "this agent is shutting down");
}

// FNV-1a: the same in every process and version.
uint32_t split_of(const std::string& writer, uint32_t n_splits) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : writer) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93ULL;  // its last letters reach few bits
  return static_cast<uint32_t>((hash >> 32) % n_splits);
}

arrow::Status unreadable(const arrow::Status& status) {
  if (!detail_of(status).empty()) return status;
  return fault("DataError", "the stream can't be read: " + first_line(status.message(), 200));
}

arrow::Status check_schema(fl::FlightMessageReader& reader, const StreamQueue& queue) {
  auto given = reader.GetSchema();
  if (!given.ok()) return unreadable(given.status());
  ARROW_RETURN_NOT_OK(check_foreign_schema(**given));
  for (const auto& field : queue.schema->fields()) {
    const auto found = (*given)->GetFieldByName(field->name());
    if (found != nullptr && found->type()->Equals(field->type())) continue;
    return fault("DataError", "the put has columns " + columns_text(**given) + ", stream " +
                                  quoted(queue.name) + " has " + columns_text(*queue.schema));
  }
  return arrow::Status::OK();
}

}  // namespace

bool is_stream(const fl::FlightDescriptor& descriptor) {
  return descriptor.type == fl::FlightDescriptor::PATH && !descriptor.path.empty() &&
         descriptor.path[0] == "stream";
}

StreamQueue::StreamQueue(std::string name, std::shared_ptr<arrow::Schema> schema, uint32_t split,
                         uint32_t n_splits, int64_t bytes_max, bool at_once)
    : name(std::move(name)), schema(std::move(schema)), split(split), n_splits(n_splits),
      bytes_max_(bytes_max), at_once_(at_once) {}

arrow::Result<std::pair<std::string, uint64_t>> StreamQueue::attach(std::string writer) {
  std::lock_guard lock(mutex_);
  if (closed_) return over();
  if (writer.empty()) writer = "#" + std::to_string(++n_unnamed_);
  if (writers_.size() >= STREAM_WRITERS_MAX && writers_.count(writer) == 0) {
    return fault("ConfigError", "stream " + quoted(name) + " has had " +
                                    std::to_string(STREAM_WRITERS_MAX) +
                                    " writers, there is room for no other; put without a name");
  }
  Writer& found = writers_[writer];
  if (found.writing) {
    return fault("ConfigError", "writer " + fabric::quoted(writer) + " puts into stream " +
                                    quoted(name) + " already; wait until that put has ended");
  }
  found.writing = true;
  return std::make_pair(writer, found.received);
}

void StreamQueue::detach(const std::string& writer) {
  std::lock_guard lock(mutex_);
  writers_[writer].writing = false;
}

arrow::Status StreamQueue::push(const std::string& writer,
                                std::shared_ptr<arrow::RecordBatch> batch,
                                const Cancelled& cancelled) {
  const int64_t n_bytes = arrow::util::TotalBufferSize(*batch);
  std::unique_lock lock(mutex_);
  while (!closed_ && !waiting_.empty() && bytes_ + n_bytes > bytes_max_) {
    if (cancelled()) return gone();
    changed_.wait_for(lock, STREAM_PATIENCE);
  }
  if (closed_) return over();
  Writer& found = writers_[writer];
  waiting_.push_back({{writer, found.received++, std::move(batch)}, n_bytes});
  bytes_ += n_bytes;
  if (at_once_) found.safe = found.received;
  changed_.notify_all();
  return arrow::Status::OK();
}

bool StreamQueue::take(StreamMessage& out) {
  std::lock_guard lock(mutex_);
  if (waiting_.empty()) return false;
  out = std::move(waiting_.front().message);
  bytes_ -= waiting_.front().n_bytes;
  waiting_.pop_front();
  changed_.notify_all();
  return true;
}

void StreamQueue::acknowledge(const std::string& writer, uint64_t count) {
  std::lock_guard lock(mutex_);
  const auto found = writers_.find(writer);
  if (found == writers_.end() || found->second.safe >= count) return;
  found->second.safe = count;
  changed_.notify_all();
}

void StreamQueue::seek(const std::string& writer, uint64_t count) {
  std::lock_guard lock(mutex_);
  writers_[writer] = Writer{count, count, false};
}

bool StreamQueue::wait_safe(const std::string& writer, uint64_t& told,
                            const std::atomic<bool>& over) {
  std::unique_lock lock(mutex_);
  while (!closed_ && !over.load()) {
    const uint64_t safe = writers_[writer].safe;
    if (safe > told) {
      told = safe;
      return true;
    }
    changed_.wait_for(lock, STREAM_PATIENCE);
  }
  return false;
}

arrow::Result<uint64_t> StreamQueue::wait_all_safe(const std::string& writer,
                                                   const Cancelled& cancelled) {
  std::unique_lock lock(mutex_);
  const Writer& found = writers_[writer];
  while (found.safe < found.received) {
    if (closed_) {
      return fault("PeerLostError", "stream " + quoted(name) + " is not read here any more: " +
                                        std::to_string(found.safe) + " of " +
                                        std::to_string(found.received) +
                                        " messages are safe; put the others again");
    }
    if (cancelled()) return gone();
    changed_.wait_for(lock, STREAM_PATIENCE);
  }
  const uint64_t safe = found.safe;
  if (writer[0] == '#') writers_.erase(writer);
  return safe;
}

void StreamQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_.clear();
  bytes_ = 0;
  changed_.notify_all();
}

arrow::Status StreamQueue::over() const {
  return fault("PeerLostError",
               "stream " + quoted(name) + " is not read here any more; ask where it is, and put "
               "again what was not acknowledged");
}

void StreamPuts::add(const StreamQueuePtr& queue) {
  std::lock_guard lock(mutex_);
  queues_.insert(queue);
}

void StreamPuts::remove(const StreamQueuePtr& queue) {
  std::lock_guard lock(mutex_);
  queues_.erase(queue);
}

struct StreamPuts::Put {
  StreamQueue& queue;
  const std::string writer;
  const bool agent;
  fl::FlightMessageReader& reader;
  fl::FlightMetadataWriter& answers;
  const Cancelled& cancelled;

  arrow::Status tell(const std::string& text) const {
    return answers.WriteMetadata(*arrow::Buffer::FromString("{" + text + "}"));
  }
};

arrow::Status StreamPuts::take(const std::vector<std::string>& path, bool agent,
                               fl::FlightMessageReader& reader, fl::FlightMetadataWriter& writer,
                               const Cancelled& cancelled) {
  if (path.size() < 2 || path.size() > 3 || !is_name(path[1]) ||
      (path.size() == 3 && !is_name(path[2]))) {
    return fault("NotFoundError", "rows are put into streams by [\"stream\", name] or "
                                  "[\"stream\", name, writer]");
  }
  const std::string name = path.size() == 3 ? path[2] : "";
  ARROW_ASSIGN_OR_RAISE(const StreamQueuePtr queue, find(path[1], name));
  ARROW_RETURN_NOT_OK(check_schema(reader, *queue));
  ARROW_ASSIGN_OR_RAISE(const auto attached, queue->attach(name));
  const Put put{*queue, attached.first, agent, reader, writer, cancelled};
  const arrow::Status status = run(put, attached.second);
  queue->detach(put.writer);
  return status;
}

arrow::Result<StreamQueuePtr> StreamPuts::find(const std::string& name, const std::string& writer) {
  std::lock_guard lock(mutex_);
  bool known = false;
  for (const StreamQueuePtr& queue : queues_) {
    if (queue->name != name) continue;
    known = true;
    if (writer.empty() || split_of(writer, queue->n_splits) == queue->split) return queue;
  }
  if (known) {
    return fault("NotFoundError", "writer " + quoted(writer) + " of stream " + quoted(name) +
                                      " belongs to a split that another agent reads; put there");
  }
  return fault("NotFoundError", "no job reads stream " + quoted(name) +
                                    " on this agent; start one, or put to another agent");
}

arrow::Status StreamPuts::run(const Put& put, uint64_t next) {
  const std::string number = std::to_string(next);
  ARROW_RETURN_NOT_OK(put.tell("\"next\": " + number + ", \"acknowledged\": " + number));
  std::atomic<bool> over{false};
  // Of its own: a client that reads no acknowledgements holds up nobody but itself.
  std::thread telling([&put, &over, told = next]() mutable {
    while (put.queue.wait_safe(put.writer, told, over)) {
      if (!put.tell("\"acknowledged\": " + std::to_string(told)).ok()) return;
    }
    // A read that waits for the client can't be ended from here: the client has to end the put.
    if (!over.load()) (void)put.tell("\"ended\": true");
  });
  arrow::Result<uint64_t> safe = read_all(put);
  if (safe.ok()) safe = put.queue.wait_all_safe(put.writer, put.cancelled);
  over.store(true);
  put.queue.wake();
  telling.join();
  ARROW_RETURN_NOT_OK(safe.status());
  return put.tell("\"acknowledged\": " + std::to_string(*safe));
}

arrow::Result<uint64_t> StreamPuts::read_all(const Put& put) {
  uint64_t n_messages = 0;
  while (true) {
    auto chunk = put.reader.Next();
    if (!chunk.ok()) return unreadable(chunk.status());
    if (put.cancelled()) {  // a killed client's stream ends like a whole one
      return fault("PeerLostError", "the put broke off: its client went away before its end, or "
                                    "this agent is shutting down");
    }
    if (chunk->data == nullptr) {
      if (chunk->app_metadata == nullptr) return n_messages;
      continue;
    }
    if (chunk->data->num_rows() == 0) continue;  // a sign of life
    if (!put.agent) {
      ARROW_RETURN_NOT_OK(check_foreign_batch(*chunk->data, *chunk->data->schema()));
    }
    ARROW_RETURN_NOT_OK(put.queue.push(put.writer, std::move(chunk->data), put.cancelled));
    ++n_messages;
  }
}

}  // namespace fabric
