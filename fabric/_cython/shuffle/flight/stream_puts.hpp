// DoPut into streams that jobs read: ["stream", name] and ["stream", name, writer].
//
// One job: find the queue, check what comes, and tell the client what is safe. The first message to
// the client is {"next": n, "acknowledged": n}: so many messages of this writer are known, so it
// goes on with the n-th; then {"acknowledged": n} whenever that grows; {"ended": true} when nobody
// reads it any more. The put ends well once all of its messages are safe. A writer's name belongs
// to one split, for ever.
#pragma once
#include <atomic>
#include <set>
#include <thread>

#include "datasets/strangers.hpp"
#include "flight/stream_door.hpp"
#include "flight/stream_queue.hpp"

namespace fabric {

using StreamQueuePtr = std::shared_ptr<StreamQueue>;

class StreamPuts : public StreamDoor {
 public:
  void add(const StreamQueuePtr& queue) {
    std::lock_guard lock(mutex_);
    queues_.insert(queue);
  }
  void remove(const StreamQueuePtr& queue) {
    std::lock_guard lock(mutex_);
    queues_.erase(queue);
  }

  arrow::Status take(const std::vector<std::string>& path, bool agent,
                     fl::FlightMessageReader& reader, fl::FlightMetadataWriter& writer,
                     const Cancelled& cancelled) override {
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

 private:
  struct Put {
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

  arrow::Result<StreamQueuePtr> find(const std::string& name, const std::string& writer) {
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

  // FNV-1a: the same in every process and version.
  static uint32_t split_of(const std::string& writer, uint32_t n_splits) {
    uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char c : writer) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
    hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93ULL;  // its last letters reach few bits
    return static_cast<uint32_t>((hash >> 32) % n_splits);
  }

  static arrow::Status check_schema(fl::FlightMessageReader& reader, const StreamQueue& queue) {
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

  static arrow::Status unreadable(const arrow::Status& status) {
    if (!detail_of(status).empty()) return status;
    return fault("DataError", "the stream can't be read: " + first_line(status.message(), 200));
  }

  static arrow::Status run(const Put& put, uint64_t next) {
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

  static arrow::Result<uint64_t> read_all(const Put& put) {
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

  std::mutex mutex_;
  std::set<StreamQueuePtr> queues_;
};

}  // namespace fabric
