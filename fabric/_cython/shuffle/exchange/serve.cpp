// The producers' side of a pipelined edge: rings of some partitions into one DoExchange.
#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/ipc/options.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "exchange/jobs.hpp"
#include "exchange/request.hpp"
#include "flight/handlers.hpp"
#include "flight/paths.hpp"
#include "ring/batches.hpp"
#include "ring/waiting.hpp"
#include "store/payload.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"
#include "wire/header.hpp"

namespace fabric {

namespace {

constexpr auto LOOK_UP = std::chrono::milliseconds(500);  // how often a cancel is looked for
constexpr auto REST = std::chrono::milliseconds(100);
// So long rows stay here that matter to nobody yet, as with consumers on this agent.

constexpr uint64_t PACK_BYTES = 1 << 20;
constexpr uint64_t ALONE_BYTES = 256 << 10;  // so much goes uncopied

struct Packed {
  std::shared_ptr<arrow::RecordBatch> batch;
  std::vector<PartitionRows> partitions;
};

// Rows of several partitions as messages of about 1 MiB: gathers what one producer sent to the
// partitions of one consumer's agent into one batch, with the partitions' row counts in batch
// order. Order per (producer, partition) is kept: whoever sends an event of a producer flushes its
// rows first.
class Pack {
 public:
  void add(uint32_t partition, std::shared_ptr<arrow::RecordBatch> batch, uint64_t bytes,
           uint64_t charge) {
    partitions_.push_back({partition, static_cast<uint64_t>(batch->num_rows()), charge});
    batches_.push_back(std::move(batch));
    bytes_ += bytes;
  }

  bool empty() const { return batches_.empty(); }
  bool full() const { return bytes_ >= PACK_BYTES; }

  // All of it as messages, in order: one, unless batches are large or can't be joined (dictionaries
  // that differ), then one each.
  std::vector<Packed> take() {
    std::vector<Packed> out;
    const auto joined = batches_.size() > 1 && bytes_ < ALONE_BYTES * batches_.size()
                            ? arrow::ConcatenateRecordBatches(batches_)
                            : arrow::Result<std::shared_ptr<arrow::RecordBatch>>(nullptr);
    if (joined.ok() && *joined != nullptr) {
      out.push_back({*joined, std::move(partitions_)});
    } else {
      for (size_t i = 0; i < batches_.size(); ++i) {
        out.push_back({std::move(batches_[i]), {partitions_[i]}});
      }
    }
    *this = Pack();
    return out;
  }

 private:
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  std::vector<PartitionRows> partitions_;
  uint64_t bytes_ = 0;
};

// Drains what has credit, packs it, sends it. The stream's own thread reads credits, because only
// it can; a second one writes. The end, well or not, is a message of metadata alone
// (`ExchangeEnd`); the consumer's agent answers by ending its side, which ends the call.
class ServedExchange {
 public:
  ServedExchange(const ExchangeRequest& request, Producing producing,
                 fl::FlightMessageWriter& writer, const Cancelled& cancelled, int cpu)
      : request_(request), pipes_(std::move(producing.pipes)),
        attempts_(std::move(producing.attempts)), writer_(writer), cancelled_(cancelled),
        cpu_(cpu), ledger_(request.wanted) {}

  // Until the consumer's agent ends its side; `reader` brings its credits.
  arrow::Status run(fl::FlightMessageReader& reader) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, reader.GetSchema());
    ARROW_RETURN_NOT_OK(find_ports());
    std::thread sender([&] { send_all(schema); });
    const arrow::Status read = read_credits(reader);
    over_.store(true);
    news_.signal();
    sender.join();
    return sent_.ok() ? read : sent_;
  }

 private:
  struct Source {
    BatchPort* port;
    uint32_t partition;
    uint32_t n_open;  // producers that have not ended
  };

  arrow::Status find_ports() {
    const Refusal refused = pipes_->declare(request_.edge, request_.n_partitions, 0, 0);
    ARROW_RETURN_NOT_OK(pipes_->status(refused));
    for (const WantedPartition& one : request_.wanted) {
      BatchPort* port = nullptr;
      ARROW_RETURN_NOT_OK(pipes_->status(pipes_->find(request_.edge, one.partition, port)));
      port->set_native();  // the sender never has the GIL
      sources_.push_back({port, one.partition, one.n_producers});
    }
    return arrow::Status::OK();
  }

  arrow::Status read_credits(fl::FlightMessageReader& reader) {
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto chunk, reader.Next());
      if (chunk.app_metadata == nullptr && chunk.data == nullptr) return arrow::Status::OK();
      if (chunk.app_metadata == nullptr) continue;
      ARROW_ASSIGN_OR_RAISE(const Credit credit,
                            decode_credit(std::string_view(*chunk.app_metadata)));
      {
        const std::lock_guard held(mutex_);
        ARROW_RETURN_NOT_OK(ledger_.apply(credit));
      }
      news_.signal();
    }
  }

  void send_all(const std::shared_ptr<arrow::Schema>& schema) {
    sent_ = begin(schema);
    if (sent_.ok()) sent_ = drain();
    const arrow::Status told = tell_end(sent_);
    if (sent_.ok()) sent_ = told;
  }

  arrow::Status begin(const std::shared_ptr<arrow::Schema>& schema) {
    ARROW_ASSIGN_OR_RAISE(empty_, empty_rows(schema));
    ARROW_ASSIGN_OR_RAISE(auto codec, codec_named(request_.compression));
    return writer_.Begin(schema, write_options(std::move(codec)));
  }

  // Until every producer of every wanted partition has ended, or nobody wants more.
  arrow::Status drain() {
    while (!over_.load()) {
      if (cancelled_()) return fault("PeerLostError", "the exchange was cut", request_.where());
      bool moved = false, open = false;
      std::vector<BatchPort*> idle;  // worth waiting for
      for (Source& source : sources_) {
        ARROW_ASSIGN_OR_RAISE(const bool some, sweep(source, idle));
        moved = moved || some;
        open = open || source.n_open > 0;
      }
      ARROW_RETURN_NOT_OK(flush_all());
      if (!open) return arrow::Status::OK();
      if (moved) continue;
      ARROW_ASSIGN_OR_RAISE(const bool rested, rest(idle));
      if (rested) continue;
      bool ready = false;
      const auto deadline = std::chrono::steady_clock::now() + LOOK_UP;
      ARROW_RETURN_NOT_OK(pipes_->status(pipes_->wait_any(idle, news_, ready, deadline)));
    }
    return arrow::Status::OK();
  }

  // Waits while nothing that its partitions could send matters to anybody; false: it may matter.
  // A sweep that follows within REST finds what is due, or what has come together.
  arrow::Result<bool> rest(const std::vector<BatchPort*>& idle) {
    const int64_t until = idle.size() == n_open() ? silent_until() : INT64_MIN;
    if (until == INT64_MIN) return false;
    const auto deadline = std::chrono::steady_clock::now() + REST;
    bool due = false;
    while (!due && !news_for_sweep() && std::chrono::steady_clock::now() < deadline) {
      ARROW_RETURN_NOT_OK(pipes_->status(pipes_->rest(idle, until, news_, due, deadline)));
    }
    return !due;
  }

  size_t n_open() const {
    return static_cast<size_t>(
        std::ranges::count_if(sources_, [](const Source& one) { return one.n_open > 0; }));
  }

  int64_t silent_until(uint32_t partition) {
    const std::lock_guard held(mutex_);
    return ledger_.silent_until(partition);
  }

  // The least of all partitions that may have rows.
  int64_t silent_until() {
    const std::lock_guard held(mutex_);
    int64_t least = INT64_MAX;
    for (const Source& one : sources_) {
      if (one.n_open > 0) least = std::min(least, ledger_.silent_until(one.partition));
    }
    return least;
  }

  // Whether the consumer's side has ended, or wants nothing more of a partition.
  bool news_for_sweep() {
    const std::lock_guard held(mutex_);
    return over_.load() || std::ranges::any_of(sources_, [&](const Source& one) {
             return one.n_open > 0 && ledger_.closed(one.partition);
           });
  }

  // What one partition may send now; whether that was anything.
  arrow::Result<bool> sweep(Source& source, std::vector<BatchPort*>& idle) {
    bool moved = false;
    while (source.n_open > 0) {
      if (closed(source.partition)) {
        BatchPipes::close(*source.port);
        source.n_open = 0;
        return true;
      }
      std::vector<BatchItem> dropped;
      const Head head = source.port->peek(dropped);
      if (!head.some) {
        ARROW_RETURN_NOT_OK(pipes_->cancellation());
        idle.push_back(source.port);
        return moved;
      }
      if (head.row && !may_send(source.partition)) return moved;  // a credit will wake us
      std::vector<BatchItem> taken;
      source.port->take(
          1, [&](BatchItem&& item) { taken.push_back(std::move(item)); }, dropped);
      for (BatchItem& item : taken) ARROW_RETURN_NOT_OK(pass(source, std::move(item)));
      moved = moved || !taken.empty();
    }
    return moved;
  }

  arrow::Status pass(Source& source, BatchItem item) {
    Pack& pack = packs_[item.producer];
    if (item.is_rows()) {
      const uint64_t charge = charge_of(item.bytes);
      {
        const std::lock_guard held(mutex_);
        ledger_.spend(source.partition, charge);
      }
      pack.add(source.partition, std::move(item.payload), item.bytes, charge);
      return pack.full() ? flush(item.producer, pack) : arrow::Status::OK();
    }
    if (item.kind == Kind::WATERMARK && silent_until(source.partition) != INT64_MIN) {
      // The last one stands for those before it. It may go behind rows that were put behind it:
      // it promises something of what comes later.
      times_[{item.producer, source.partition}] = item.value;
      return arrow::Status::OK();
    }
    ARROW_RETURN_NOT_OK(flush(item.producer, pack));
    ARROW_RETURN_NOT_OK(tell_times(item.producer));
    if (item.kind == Kind::END) --source.n_open;
    return tell(source.partition, item);
  }

  arrow::Status tell(uint32_t partition, const BatchItem& item) {
    EdgeHeader header = next_header(item.producer);
    header.event = static_cast<Event>(item.kind);
    header.event_value = item.value;
    header.partitions = {{partition, 0}};
    if (item.kind == Kind::END) header.total_rows = item.rows;
    return send(header, *empty_);
  }

  // The watermarks of a producer, whose rows have gone before.
  arrow::Status tell_times(uint32_t producer) {
    const auto begin = times_.lower_bound({producer, 0});
    auto at = begin;
    for (; at != times_.end() && at->first.first == producer; ++at) {
      const auto& [key, time_us] = *at;
      ARROW_RETURN_NOT_OK(tell(key.second, event_item(producer, Kind::WATERMARK, time_us, 0)));
    }
    times_.erase(begin, at);
    return arrow::Status::OK();
  }

  arrow::Status flush_all() {
    for (auto& [producer, pack] : packs_) {
      ARROW_RETURN_NOT_OK(flush(producer, pack));
      ARROW_RETURN_NOT_OK(tell_times(producer));
    }
    return arrow::Status::OK();
  }

  arrow::Status flush(uint32_t producer, Pack& pack) {
    if (pack.empty()) return arrow::Status::OK();
    for (Packed& packed : pack.take()) {
      EdgeHeader header = next_header(producer);
      header.partitions = std::move(packed.partitions);
      ARROW_ASSIGN_OR_RAISE(header.crc32c, crc32c_of(*packed.batch, cpu_));
      ARROW_RETURN_NOT_OK(send(header, *packed.batch));
    }
    return arrow::Status::OK();
  }

  EdgeHeader next_header(uint32_t producer) {
    EdgeHeader header;
    header.job = request_.job;
    header.edge = request_.edge;
    header.producer = producer;
    header.attempt = attempts_->of(request_.edge, producer);
    header.sequence = sequences_[producer]++;
    return header;
  }

  arrow::Status send(const EdgeHeader& header, const arrow::RecordBatch& batch) {
    const auto metadata = arrow::Buffer::FromString(encode_header(header));
    return written(writer_.WriteWithMetadata(batch, metadata));
  }

  arrow::Status tell_end(const arrow::Status& status) {
    return written(writer_.WriteMetadata(arrow::Buffer::FromString(encode_end(status))));
  }

  // A consumer's agent that went away is no bug of ours.
  arrow::Status written(const arrow::Status& status) const {
    if (!fl::FlightStatusDetail::UnwrapStatus(status)) return status;
    return fault("PeerLostError", "the exchange was cut: its consumers' agent went away",
                 request_.where());
  }

  bool closed(uint32_t partition) {
    const std::lock_guard held(mutex_);
    return ledger_.closed(partition);
  }
  bool may_send(uint32_t partition) {
    const std::lock_guard held(mutex_);
    return ledger_.may_send(partition);
  }

  const ExchangeRequest request_;
  const std::shared_ptr<BatchPipes> pipes_;
  const std::shared_ptr<const Attempts> attempts_;
  fl::FlightMessageWriter& writer_;
  const Cancelled& cancelled_;
  const int cpu_;
  std::mutex mutex_;  // of the ledger
  Ledger ledger_;
  Waiter news_;  // credits, and the end of the consumer's side
  std::atomic<bool> over_{false};

  // The sending thread's own.
  std::vector<Source> sources_;
  std::map<uint32_t, Pack> packs_;
  std::map<uint32_t, uint64_t> sequences_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> times_;  // by producer and partition, to be told
  std::shared_ptr<arrow::RecordBatch> empty_;
  arrow::Status sent_;
};

// What `Handlers.exchange` does: any agent may ask for what producers of a job put out here.
arrow::Status serve_exchange(const JobPipes& jobs, const ExchangePath& path, bool agent,
                             fl::FlightMessageReader& reader, fl::FlightMessageWriter& writer,
                             const Cancelled& cancelled, double idle_s, int cpu) {
  if (!agent) return fault("ScopeError", "exchanges are between agents; use do_get");
  ARROW_ASSIGN_OR_RAISE(const ExchangeRequest request, request_of(path));
  Producing producing;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(idle_s);
  while (producing.pipes == nullptr) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end || cancelled()) {
      return fault("NotFoundError", "the job has no tasks on this agent; was it released?",
                   request.where());
    }
    producing = jobs.wait_for(request.job, now + LOOK_UP);
  }
  return ServedExchange(request, std::move(producing), writer, cancelled, cpu).run(reader);
}

}  // namespace

void bind_exchange(Handlers& handlers, std::shared_ptr<JobPipes> jobs, double idle_s, int cpu) {
  handlers.exchange = [jobs, idle_s, cpu](const ExchangePath& path, bool agent,
                                          fl::FlightMessageReader& reader,
                                          fl::FlightMessageWriter& writer,
                                          const Cancelled& cancelled) {
    return serve_exchange(*jobs, path, agent, reader, writer, cancelled, idle_s, cpu);
  };
}

}  // namespace fabric
