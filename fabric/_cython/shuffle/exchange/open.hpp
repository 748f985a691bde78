// A pipelined edge on its consumers' agent: one DoExchange into rings of some partitions.
//
// One job: check what comes and put it into the ports of this agent, grant credits as they are
// read. The reading thread never waits for a consumer: what a port has no room for is kept beside
// it, bounded by the credit it came with, and put in by the granting thread, so that a partition
// that nobody reads stalls no other. An error cancels the job's pipes, which wakes its tasks.
#pragma once
#include <arrow/flight/client.h>

#include <thread>

#include "exchange/check.hpp"
#include "exchange/ledger.hpp"
#include "pump/call.hpp"
#include "pump/ipc_stream.hpp"
#include "ring/batches.hpp"

namespace fabric {

constexpr uint64_t WINDOW_BYTES = 8 << 20;  // that one partition may have on its way and unread
constexpr auto GRANT_LOOK = std::chrono::milliseconds(500);

struct ExchangeOrder {
  std::string address;
  ExchangeRequest request;
  std::vector<ExpectedProducer> expected;
  std::shared_ptr<arrow::Schema> schema;
  Headers headers;
  double idle_s = 30;
  Where where;
  uint64_t window_bytes = WINDOW_BYTES;
  int cpu = 0;
};

class Exchange : public Call {
 public:
  Exchange(std::shared_ptr<Connections> pool, std::shared_ptr<BatchPipes> pipes,
           ExchangeOrder order)
      : Call(std::move(pool), order.address, order.idle_s, order.where, ""),
        pipes_(std::move(pipes)), order_(std::move(order)),
        check_(order_.request, order_.expected, where_, order_.cpu) {}

  // What it ended with; fine while it runs and when it was stopped.
  arrow::Status failure() {
    const Lock held(mutex_);
    return ended_ && !stopped_ ? error_ : arrow::Status::OK();
  }

  uint64_t rows() const { return rows_.load(); }

 private:
  struct Inlet {
    BatchPort* port;
    Window window;
    uint64_t kept_bytes = 0, n_kept = 0;  // beside the port, for want of room
    bool closed = false;

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
      ARROW_ASSIGN_OR_RAISE(const bool more, incoming.next(message));
      if (!more) {
        cut = true;
        return check_.lost("the connection broke", "?");
      }
      if (message.batch == nullptr) return decode_end(message.header);
      ARROW_RETURN_NOT_OK(message.batch->Validate());
      ARROW_RETURN_NOT_OK(accept(message));
    }
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
      const uint64_t waiting = charge_of(inlet.port->bytes() + inlet.kept_bytes,
                                         inlet.port->batches() + inlet.n_kept);
      if (const uint64_t bytes = inlet.window.due(waiting, inlet.window_max())) {
        credit.grants.push_back({partition, bytes});
      }
    }
    return credit;
  }

  // What is due after a sleep, which ends when a consumer makes room somewhere or the stream is
  // over; maybe nothing. Whoever is woken by a port passes the wake on, because what it waited for
  // was not all of the room.
  arrow::Result<Credit> awaited() {
    std::vector<BatchPort*> open;
    for (auto& [_, inlet] : inlets_) {
      if (inlet.closed) continue;
      open.push_back(inlet.port);
      inlet.port->producers.add(news_, {inlet.window.step(inlet.window_max()), true});
    }
    auto credit = due();  // room may have come before we were in the lists
    if (credit.ok() && credit->empty()) {
      news_.wait(std::chrono::steady_clock::now() + GRANT_LOOK);
    }
    for (BatchPort* port : open) {
      if (!port->producers.remove(news_)) port->wake_producers();
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

}  // namespace fabric
