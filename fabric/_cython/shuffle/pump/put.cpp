// How a put is written.
//
// One job: the writing thread, and the queue that it empties.
#include "pump/put.hpp"

#include <arrow/flight/client.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "pump/ipc_stream.hpp"
#include "wire/batches.hpp"
#include "wire/condition.hpp"
#include "wire/header.hpp"

namespace fabric {
namespace {

constexpr size_t PUT_MESSAGES_MAX = 8;
constexpr int64_t PUT_BYTES_MAX = 16 << 20;

bool may_bring_dictionary(const arrow::Schema& schema) {
  return std::any_of(schema.fields().begin(), schema.fields().end(),
                     [](const auto& field) { return has_dictionary(*field->type()); });
}

}  // namespace

PutCall::PutCall(std::shared_ptr<Connections> pool, PutOrder order)
    : Call(std::move(pool), order.address, order.idle_s, Where{}, ""),
      order_(std::move(order)) {}

arrow::Result<bool> PutCall::write(const std::shared_ptr<arrow::RecordBatch>& batch,
                                   uint32_t partition, Patience& patience, Batches& spent) {
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

arrow::Result<bool> PutCall::seal(Patience& patience, Batches& spent, std::string& answer) {
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

void PutCall::drain(Batches& spent) {
  const Lock held(mutex_);
  spent.swap(spent_);
  for (Queued& waiting : queue_) spent.push_back(std::move(waiting.batch));
  queue_.clear();
}

uint64_t PutCall::rows() {
  const Lock held(mutex_);
  return rows_;
}

bool PutCall::full() const {
  return queue_.size() >= PUT_MESSAGES_MAX ||
         (!queue_.empty() && queued_bytes_ >= PUT_BYTES_MAX);
}

arrow::Status PutCall::serve() {
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
arrow::Status PutCall::send(Stream& stream) {
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
bool PutCall::next(Queued& out) {
  Lock held(mutex_);
  wait_until_true(changed_, held, [&] { return stopped_ || sealing_ || !queue_.empty(); });
  if (stopped_ || queue_.empty()) return false;
  out = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= out.n_bytes;
  return true;
}

arrow::Result<bool> PutCall::send_rows(Outgoing& outgoing, Queued& item) {
  arrow::Result<bool> taken = write_rows(outgoing, item);
  sent_ = true;
  const Lock held(mutex_);
  rows_ += static_cast<uint64_t>(item.batch->num_rows());
  spent_.push_back(std::move(item.batch));
  ++progress_;
  changed_.notify_all();
  return taken;
}

arrow::Result<bool> PutCall::write_rows(Outgoing& outgoing, const Queued& item) {
  if (!order_.edge) return outgoing.write(*item.batch, "");
  EdgeHeader header = next_header();
  header.partitions = {{item.partition, static_cast<uint64_t>(item.batch->num_rows())}};
  ARROW_ASSIGN_OR_RAISE(header.crc32c, crc32c_of(*item.batch, order_.cpu));
  return outgoing.write(*item.batch, encode_header(header));
}

arrow::Result<bool> PutCall::send_end(Outgoing& outgoing) {
  EdgeHeader header = next_header();
  {
    const Lock held(mutex_);
    if (stopped_) return arrow::Status::Cancelled("stopped");
    header.total_rows = rows_;
    if (!order_.edge && (sent_ || !may_bring_dictionary(*order_.schema))) return true;
  }
  header.event = Event::END;
  // Readers of a plain stream without batches fail on dictionaries that none brought.
  ARROW_ASSIGN_OR_RAISE(const auto empty, empty_rows(order_.schema));
  return outgoing.write(*empty, order_.edge ? encode_header(header) : std::string());
}

EdgeHeader PutCall::next_header() {
  EdgeHeader header;
  header.job = order_.job;
  header.attempt = order_.attempt;
  header.sequence = sequence_++;
  return header;
}

}  // namespace fabric
