// DoPut: record batches from a bounded queue into a stream, and what the server acknowledges.
//
// One job: queue, sum up, write, wait for the answer. Puts to owners carry headers with checksums
// and end with an END event with the total of rows; an abandoned put is broken off, so that no
// server takes it for a whole one. Batches that were sent go back to the caller to be destroyed:
// those that numpy holds need the GIL for it, which this thread never takes.
#pragma once
#include <arrow/extension_type.h>
#include <arrow/util/byte_size.h>

#include <deque>

#include "call.hpp"
#include "wire/check.hpp"
#include "wire/empty.hpp"

namespace fabric {

constexpr size_t PUT_MESSAGES_MAX = 8;
constexpr int64_t PUT_BYTES_MAX = 16 << 20;

struct PutOrder {
  std::string address;
  std::vector<std::string> path;
  std::shared_ptr<arrow::Schema> schema;
  Headers headers;
  double idle_s = 30;
  bool edge = false;  // messages carry headers of `job` and `attempt`
  std::string job;
  uint32_t attempt = 0;
  int cpu = 0;
};

inline bool has_dictionary(const arrow::Schema& schema) {
  return std::any_of(schema.fields().begin(), schema.fields().end(),
                     [](const auto& field) { return has_dictionary(*field->type()); });
}

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class PutCall : public Call {
 public:
  PutCall(std::shared_ptr<Connections> pool, PutOrder order)
      : Call(std::move(pool), order.address, order.idle_s, Where{}, ""),
        order_(std::move(order)) {}

  // Queue rows; false when there was no room for a moment: ask again. Says what went wrong with
  // these or earlier ones. `spent` is the caller's to drop.
  arrow::Result<bool> write(const std::shared_ptr<arrow::RecordBatch>& batch, uint32_t partition,
                            Patience& patience, Batches& spent) {
    Lock held(mutex_);
    ARROW_ASSIGN_OR_RAISE(const bool done, wait_moment(held, patience, "took nothing",
                                                       [&] { return !full(); }));
    spent.swap(spent_);
    if (ended_) return error_.ok() ? closed_status() : error_;
    if (!done) return false;
    const int64_t n_bytes = arrow::util::TotalBufferSize(*batch);
    queue_.push_back({batch, partition, n_bytes});
    queued_bytes_ += n_bytes;
    changed_.notify_all();
    return true;
  }

  // End the stream; false to ask again. `answer` is the server's last acknowledgement.
  arrow::Result<bool> seal(Patience& patience, Batches& spent, std::string& answer) {
    Lock held(mutex_);
    if (!sealing_) {
      sealing_ = true;
      changed_.notify_all();
    }
    ARROW_ASSIGN_OR_RAISE(const bool done, wait_moment(held, patience, "took nothing",
                                                       [] { return false; }));
    spent.swap(spent_);
    if (done) ARROW_RETURN_NOT_OK(error_);
    answer = answer_;
    return done;
  }

  // Everything that is left, once the thread has ended.
  void drain(Batches& spent) {
    const Lock held(mutex_);
    spent.swap(spent_);
    for (Queued& waiting : queue_) spent.push_back(std::move(waiting.batch));
    queue_.clear();
  }

  uint64_t rows() {
    const Lock held(mutex_);
    return rows_;
  }

 private:
  struct Queued {
    std::shared_ptr<arrow::RecordBatch> batch;
    uint32_t partition;
    int64_t n_bytes;
  };

  bool full() const {
    return queue_.size() >= PUT_MESSAGES_MAX ||
           (!queue_.empty() && queued_bytes_ >= PUT_BYTES_MAX);
  }

  arrow::Status serve() override {
    const arrow::Status status = with_stream(
        [&](Connection::Transport& transport, std::unique_ptr<Stream>* stream) {
          return transport.DoPut(call_options(order_.headers, CALL_S_MAX), stream);
        },
        [&](Stream& stream, bool&) { return send(stream); });
    if (is_broken(status)) return no_answer(status, 1);
    if (!status.ok()) return status;
    const Lock held(mutex_);
    if (!sealed_) {
      return fault("PartitionLostError", "the server ended a put before its rows did", where_);
    }
    return status;
  }

  // OK also when the server takes no more: how the stream ended tells why.
  arrow::Status send(Stream& stream) {
    Outgoing outgoing(stream, arrow::flight::FlightDescriptor::Path(order_.path));
    ARROW_ASSIGN_OR_RAISE(bool taken, outgoing.begin(order_.schema));
    Queued item;
    while (taken && next(item)) {
      ARROW_ASSIGN_OR_RAISE(taken, send_rows(outgoing, item));
    }
    if (taken) {
      ARROW_ASSIGN_OR_RAISE(taken, send_end(outgoing));
    }
    if (!taken) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(stream.WritesDone());
    std::shared_ptr<arrow::Buffer> answer;
    while (stream.ReadPutMetadata(&answer) && answer != nullptr) {
      const Lock held(mutex_);
      ++progress_;
      answer_ = answer->ToString();
      changed_.notify_all();
    }
    const Lock held(mutex_);
    if (stopped_) return arrow::Status::Cancelled("stopped");
    sealed_ = true;
    return arrow::Status::OK();
  }

  // False when it is sealed; a stop is found by those who write.
  bool next(Queued& out) {
    Lock held(mutex_);
    changed_.wait(held, [&] { return stopped_ || sealing_ || !queue_.empty(); });
    if (stopped_ || queue_.empty()) return false;
    out = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= out.n_bytes;
    return true;
  }

  arrow::Result<bool> send_rows(Outgoing& outgoing, Queued& item) {
    arrow::Result<bool> taken = write_rows(outgoing, item);
    sent_ = true;
    const Lock held(mutex_);
    rows_ += static_cast<uint64_t>(item.batch->num_rows());
    spent_.push_back(std::move(item.batch));
    ++progress_;
    changed_.notify_all();
    return taken;
  }

  arrow::Result<bool> write_rows(Outgoing& outgoing, const Queued& item) {
    if (!order_.edge) return outgoing.write(*item.batch, "");
    EdgeHeader header = next_header();
    header.partitions = {{item.partition, static_cast<uint64_t>(item.batch->num_rows())}};
    ARROW_ASSIGN_OR_RAISE(header.crc32c, crc32c_of(*item.batch, order_.cpu));
    return outgoing.write(*item.batch, encode_header(header));
  }

  arrow::Result<bool> send_end(Outgoing& outgoing) {
    EdgeHeader header = next_header();
    {
      const Lock held(mutex_);
      if (stopped_) return arrow::Status::Cancelled("stopped");
      header.total_rows = rows_;
      if (!order_.edge && (sent_ || !has_dictionary(*order_.schema))) return true;
    }
    header.event = Event::END;
    // Readers of a plain stream without batches fail on dictionaries that none brought.
    ARROW_ASSIGN_OR_RAISE(const auto empty, empty_rows(order_.schema));
    return outgoing.write(*empty, order_.edge ? encode_header(header) : std::string());
  }

  EdgeHeader next_header() {
    EdgeHeader header;
    header.job = order_.job;
    header.attempt = order_.attempt;
    header.sequence = sequence_++;
    return header;
  }

  const PutOrder order_;
  uint64_t sequence_ = 0;  // the thread's own
  bool sent_ = false;

  std::deque<Queued> queue_;
  Batches spent_;
  int64_t queued_bytes_ = 0;
  uint64_t rows_ = 0;
  bool sealing_ = false, sealed_ = false;
  std::string answer_;
};

// Call an action of the server at `address`; the bodies of its results.
inline arrow::Result<std::vector<std::string>> act(Connections& pool, const std::string& address,
                                                   const std::string& name, const std::string& body,
                                                   const Headers& headers, double timeout_s) {
  ARROW_ASSIGN_OR_RAISE(const auto connection, pool.lend(address));
  arrow::flight::Action action{name, arrow::Buffer::FromString(body)};
  std::unique_ptr<arrow::flight::ResultStream> results;
  std::vector<std::string> bodies;
  const auto run = [&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(connection->transport().DoAction(call_options(headers, timeout_s), action,
                                                         &results));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto result, results->Next());
      if (result == nullptr) return arrow::Status::OK();
      bodies.push_back(result->body == nullptr ? std::string() : result->body->ToString());
    }
  };
  const arrow::Status status = run();
  if (is_broken(status)) pool.broken(connection);
  ARROW_RETURN_NOT_OK(status);
  return bodies;
}

}  // namespace fabric
