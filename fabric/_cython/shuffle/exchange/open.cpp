// The consumers' side of a pipelined edge, with another agent.
#include "exchange/open.hpp"

#include <arrow/flight/client.h>
#include <arrow/flight/transport.h>
#include <arrow/flight/types.h>
#include <arrow/record_batch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "pump/call.hpp"
#include "pump/ipc_stream.hpp"
#include "ring/batches.hpp"
#include "ring/waiting.hpp"
#include "store/message.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"
#include "wire/header.hpp"

namespace fabric {
namespace {

constexpr auto GRANT_LOOK = std::chrono::milliseconds(500);

// Whether the messages of a pipelined edge follow each other rightly: a pure check, as
// `wire/check.hpp` is for materialised partitions. Sequence numbers count per producer; rows and
// their end per (producer, partition).
class ExchangeCheck {
 public:
  ExchangeCheck(const ExchangeRequest& request, const std::vector<ExpectedProducer>& expected,
                Where where, int cpu)
      : job_(request.job), edge_(request.edge), where_(std::move(where)), cpu_(cpu) {
    for (const ExpectedProducer& one : expected) {
      producers_[one.task].attempt = one.attempt;
      open_.insert({one.task, one.partition});
    }
  }

  // Check one message; false means: seen before, drop it.
  arrow::Result<bool> accept(const EdgeHeader& header, const arrow::RecordBatch& batch) {
    const std::string task = std::to_string(header.producer) + "#" + std::to_string(header.attempt);
    const auto found = producers_.find(header.producer);
    if (header.job != job_ || header.edge != edge_ || found == producers_.end()) {
      return lost("a message of " + header.job + "/e" + std::to_string(header.edge) +
                      " came, which nobody asked for", task);
    }
    Progress& progress = found->second;
    if (header.attempt != progress.attempt) {
      return lost("attempt " + std::to_string(progress.attempt) + " was expected", task);
    }
    if (header.sequence < progress.sequence) return false;
    if (header.sequence > progress.sequence) {
      const uint64_t missing = header.sequence - progress.sequence;
      return lost(std::to_string(missing) + " messages are missing before " +
                      std::to_string(header.sequence), task);
    }
    ++progress.sequence;
    const auto n_rows = static_cast<uint64_t>(batch.num_rows());
    uint64_t rows = 0;
    for (const PartitionRows& part : header.partitions) {
      rows += std::min(part.rows, n_rows + 1);  // a sum that wraps around must not look right
      if (!open_.contains({header.producer, part.partition}) && !closed_.contains(part.partition)) {
        const std::string which = "partition " + std::to_string(part.partition);
        return lost(which + " had ended or was not asked for", task);
      }
    }
    if (rows != n_rows) {
      return lost("a message holds other rows than its header says", task);
    }
    if (header.event == Event::END) {
      for (const PartitionRows& part : header.partitions) {
        open_.erase({header.producer, part.partition});
      }
    }
    if (header.event != Event::ROWS) return true;
    ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(batch, cpu_));
    if (crc != header.crc32c) return lost("a message arrived damaged: its checksum differs", task);
    return true;
  }

  // Nothing more is wanted of a partition.
  void close(uint32_t partition) {
    std::erase_if(open_, [&](const auto& key) { return key.second == partition; });
    closed_.insert(partition);
  }

  arrow::Status finish() const {
    if (open_.empty()) return arrow::Status::OK();
    const auto& [task, partition] = *open_.begin();
    return lost("partition " + std::to_string(partition) + " ended before its rows did",
                std::to_string(task) + "#" + std::to_string(producers_.at(task).attempt));
  }

  arrow::Status lost(const std::string& what, const std::string& task) const {
    Where at = where_;
    at.task = task;
    return fault("PartitionLostError",
                 "edge " + std::to_string(edge_) + " from task " + task + ": " + what, at);
  }

 private:
  struct Progress {
    uint32_t attempt = 0;
    uint64_t sequence = 0;
  };
  std::string job_;
  uint32_t edge_;
  Where where_;
  int cpu_;
  std::map<uint32_t, Progress> producers_;
  std::set<std::pair<uint32_t, uint32_t>> open_;  // (producer, partition) that have not ended
  std::set<uint32_t> closed_;
};

// One DoExchange into rings: checks what comes and puts it into the ports of this agent, grants
// credits as they are read. The reading thread never waits for a consumer: what a port has no room
// for is kept beside it, bounded by the credit it came with, and put in by the granting thread, so
// that a partition that nobody reads stalls no other.
class Exchange : public Call, public OpenExchange {
 public:
  Exchange(std::shared_ptr<Connections> pool, std::shared_ptr<BatchPipes> pipes,
           ExchangeOrder order)
      : Call(std::move(pool), order.address, order.idle_s, order.where, ""),
        pipes_(std::move(pipes)), order_(std::move(order)),
        check_(order_.request, order_.expected, where_, order_.cpu) {}

  void close() override { Call::close(); }

  arrow::Status failure() override {
    const Lock held(mutex_);
    return ended_ && !stopped_ ? error_ : arrow::Status::OK();
  }

  uint64_t rows() const override { return rows_.load(); }

 private:
  struct Inlet {
    BatchPort* port;
    Window window;
    uint64_t kept_bytes = 0, n_kept = 0;  // beside the port, for want of room
    bool closed = false;
    int64_t silent_until = INT64_MIN;  // as the producers' side was told

    // What may be on its way and unread: beside what waits here as much again.
    uint64_t window_max() const { return 2 * port->bytes_max(); }
  };

  arrow::Status serve() override {
    arrow::Status status = find_ports();
    if (status.ok()) {
      status = with_stream(
          [&](Connection::Transport& transport, std::unique_ptr<Stream>* stream) {
            return transport.DoExchange(call_options(order_.headers, CALL_S_MAX), stream);
          },
          [&](Stream& stream, bool& cut) { return run(stream, cut); });
    }
    if (is_broken(status)) {
      status = check_.lost("the connection broke (" + words_of(status) + ")", "?");
    }
    if (!status.ok()) pipes_->cancel("an exchange with another agent failed: " + words_of(status));
    return status;
  }

  arrow::Status find_ports() {
    const ExchangeRequest& request = order_.request;
    ARROW_RETURN_NOT_OK(
        pipes_->status(pipes_->declare(request.edge, request.n_partitions, 0, 0)));
    for (const WantedPartition& one : request.wanted) {
      BatchPort* port = nullptr;
      ARROW_RETURN_NOT_OK(pipes_->status(pipes_->find(request.edge, one.partition, port)));
      inlets_.emplace(one.partition, Inlet{port, Window(order_.window_bytes)});
    }
    return arrow::Status::OK();
  }

  arrow::Status run(Stream& stream, bool& cut) {
    Outgoing outgoing(stream, arrow::flight::FlightDescriptor::Path(request_path(order_.request)));
    ARROW_ASSIGN_OR_RAISE(const bool taken, outgoing.begin(order_.schema));
    if (!taken) return arrow::Status::OK();  // how the stream ended tells why
    std::thread granter([&] { grant_all(outgoing); });
    const arrow::Status status = read_all(stream, cut);
    over_.store(true);
    news_.signal();
    granter.join();
    if (!status.ok()) return status;
    ARROW_RETURN_NOT_OK(stream.WritesDone());
    return cut ? arrow::Status::OK() : settle();
  }

  // What still lies beside its port is put in, as fast as consumers make room.
  arrow::Status settle() {
    ARROW_RETURN_NOT_OK(check_.finish());
    return pipes_->status(pipes_->put(pending_));
  }

  // Until the producers' side tells its end, or breaks off.
  arrow::Status read_all(Stream& stream, bool& cut) {
    Incoming incoming(stream);
    for (;;) {
      Message message;
      const arrow::Result<bool> more = incoming.next(message);
      if (!more.ok()) {  // maybe only as the stream broke off, amid the dictionaries of a batch
        cut = incoming.over();
        return damaged(more.status());
      }
      if (!*more) {
        cut = true;
        return check_.lost("the connection broke", "?");
      }
      if (message.batch == nullptr) return decode_end(message.header);
      if (const auto valid = message.batch->Validate(); !valid.ok()) return damaged(valid);
      ARROW_RETURN_NOT_OK(accept(message));
    }
  }

  arrow::Status damaged(const arrow::Status& why) const {
    return check_.lost("a message can't be read: " + why.message().substr(0, 300), "?");
  }

  arrow::Status accept(const Message& message) {
    const auto header = decode_header(message.header);
    if (!header.ok()) return check_.lost("a message came without its header", "?");
    const std::lock_guard held(state_);
    ARROW_ASSIGN_OR_RAISE(const bool fresh, check_.accept(*header, *message.batch));
    if (!fresh) return arrow::Status::OK();
    rows_.fetch_add(static_cast<uint64_t>(message.batch->num_rows()));
    int64_t row = 0;
    for (const PartitionRows& part : header->partitions) {
      Inlet& inlet = inlets_.at(part.partition);
      if (header->event == Event::ROWS) {
        const auto n = static_cast<int64_t>(part.rows);
        auto rows = n == message.batch->num_rows() ? message.batch : message.batch->Slice(row, n);
        row += n;
        inlet.window.received(part.charge);
        keep(inlet, rows_item(header->producer, std::move(rows)));
      } else {
        keep(inlet, event_item(header->producer, static_cast<Kind>(header->event),
                               header->event_value, header->total_rows));
      }
    }
    return put_kept();
  }

  void keep(Inlet& inlet, BatchItem item) {
    if (item.is_rows()) {
      inlet.kept_bytes += item.bytes;
      ++inlet.n_kept;
    }
    pending_.sends.push_back({inlet.port, std::move(item)});
  }

  // Into the ports what fits; `state_` is held.
  arrow::Status put_kept() {
    if (pending_.sends.empty()) return arrow::Status::OK();
    const Refusal refused = pipes_->put_now(pending_);
    for (auto& [_, inlet] : inlets_) inlet.kept_bytes = inlet.n_kept = 0;
    for (const auto& send : pending_.sends) {
      if (!send.item.is_rows()) continue;
      Inlet& inlet = inlets_.at(send.port->partition);
      inlet.kept_bytes += send.item.bytes;
      ++inlet.n_kept;
    }
    return pipes_->status(refused);
  }

  // The granting thread: its errors show as those of the stream.
  void grant_all(Outgoing& outgoing) {
    while (!over_.load()) {
      auto credit = due();
      if (credit.ok() && credit->empty()) credit = awaited();
      if (!credit.ok()) return;
      if (credit->empty()) continue;
      const auto taken = outgoing.write_metadata(encode_credit(*credit));
      if (!taken.ok() || !*taken) return;
    }
  }

  arrow::Result<Credit> due() {
    const std::lock_guard held(state_);
    ARROW_RETURN_NOT_OK(put_kept());
    Credit credit;
    for (auto& [partition, inlet] : inlets_) {
      if (inlet.closed) continue;
      if (inlet.port->closed()) {
        inlet.closed = true;
        check_.close(partition);
        credit.closed.push_back(partition);
        continue;
      }
      if (const int64_t until = inlet.port->silent_until(); until != inlet.silent_until) {
        inlet.silent_until = until;
        credit.silent.push_back({partition, until});
      }
      const uint64_t waiting =
          charge_of(inlet.port->bytes() + inlet.kept_bytes, inlet.port->batches() + inlet.n_kept);
      if (const uint64_t bytes = inlet.window.due(waiting, inlet.window_max())) {
        credit.grants.push_back({partition, bytes});
      }
    }
    return credit;
  }

  // What is due after a sleep, which ends when a consumer makes room somewhere or the stream is
  // over; maybe nothing.
  arrow::Result<Credit> awaited() {
    std::vector<BatchPort*> open;
    for (auto& [_, inlet] : inlets_) {
      if (inlet.closed) continue;
      open.push_back(inlet.port);
      inlet.port->granters.add(news_, {inlet.window.step(inlet.window_max()), true});
    }
    auto credit = due();  // room may have come before we were in the lists
    if (credit.ok() && credit->empty()) {
      news_.wait(std::chrono::steady_clock::now() + GRANT_LOOK);
    }
    for (BatchPort* port : open) {  // who was signalled wakes others: it may not have needed it all
      if (!port->granters.remove(news_)) port->wake_producers();
    }
    return credit;
  }

  const std::shared_ptr<BatchPipes> pipes_;
  const ExchangeOrder order_;

  std::mutex state_;  // of all below
  ExchangeCheck check_;
  std::map<uint32_t, Inlet> inlets_;
  BatchPipes::Putting pending_;

  Waiter news_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> rows_{0};
};

}  // namespace

std::shared_ptr<OpenExchange> open_exchange(std::shared_ptr<Connections> pool,
                                            std::shared_ptr<BatchPipes> pipes,
                                            ExchangeOrder order) {
  auto opened = std::make_shared<Exchange>(std::move(pool), std::move(pipes), std::move(order));
  opened->start();
  return opened;
}

}  // namespace fabric
