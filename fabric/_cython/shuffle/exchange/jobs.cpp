// Names to pipes, and taps: a partition of a pipelined edge, read by anybody while the job runs.
#include "exchange/jobs.hpp"

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <atomic>
#include <set>
#include <variant>

#include "flight/directory.hpp"
#include "flight/handlers.hpp"
#include "ring/batches.hpp"
#include "store/message.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {

void Attempts::set(uint32_t edge, uint32_t producer, uint32_t attempt) {
  const std::lock_guard held(mutex_);
  attempts_[{edge, producer}] = attempt;
}
uint32_t Attempts::of(uint32_t edge, uint32_t producer) const {
  const std::lock_guard held(mutex_);
  const auto found = attempts_.find({edge, producer});
  return found == attempts_.end() ? 0 : found->second;
}

arrow::Status WantedTap::attach(const std::shared_ptr<BatchPipes>& pipes) const {
  BatchPort* port = nullptr;
  ARROW_RETURN_NOT_OK(pipes->status(pipes->declare(edge, n_partitions, 0, 0)));
  ARROW_RETURN_NOT_OK(pipes->status(pipes->find(edge, partition, port)));
  port->set_native();
  port->add(tap, pipes);
  return arrow::Status::OK();
}

void JobPipes::add(const std::string& job, std::shared_ptr<BatchPipes> pipes) {
  const std::lock_guard held(mutex_);
  const auto [first, last] = taps_.equal_range(job);
  for (auto at = first; at != last; ++at) {
    if (!at->second.attach(pipes).ok()) at->second.tap->cut();  // its number is out of range
  }
  taps_.erase(first, last);
  jobs_[job] = {std::move(pipes), std::make_shared<Attempts>()};
  changed_.notify_all();
}

arrow::Status JobPipes::tap(const std::string& job, const WantedTap& wanted) {
  const std::lock_guard held(mutex_);
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    return wanted.attach(found->second.pipes);
  }
  taps_.emplace(job, wanted);
  return arrow::Status::OK();
}

void JobPipes::untap(const std::shared_ptr<BatchTap>& tap) {
  {
    const std::lock_guard held(mutex_);
    std::erase_if(taps_, [&](const auto& one) { return one.second.tap == tap; });
  }
  tap->cut();
  if (BatchPort* port = tap->port()) port->remove(*tap);
}

void JobPipes::begin(const std::string& job, uint32_t edge, uint32_t producer, uint32_t attempt) {
  const std::lock_guard held(mutex_);
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    found->second.attempts->set(edge, producer, attempt);
  }
}

void JobPipes::remove(const std::string& job) {
  Producing gone;  // destroyed without the lock
  const std::lock_guard held(mutex_);
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    gone = std::move(found->second);
    jobs_.erase(found);
  }
}

Producing JobPipes::wait_for(const std::string& job, Deadline deadline) const {
  std::unique_lock held(mutex_);
  changed_.wait_until(held, deadline, [&] { return jobs_.contains(job); });
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? Producing{} : found->second;
}

namespace {

// A `Tap` of a ring as a stream of messages. Its header is JSON for any client: the rows given so
// far and those skipped before them. It ends when every producer of the partition on this agent has
// ended, or with the job when the consumer had enough before; it fails when the job does.
class TapStream : public MessageStream {
 public:
  static constexpr auto LOOK = std::chrono::milliseconds(250);  // at the job's state
  // An agent that passes on hears at once that the tap is there, and then now and again.
  static constexpr auto QUIET = std::chrono::seconds(5);

  TapStream(std::shared_ptr<JobPipes> jobs, std::shared_ptr<const Directory> table,
            PartitionTicket ticket, std::shared_ptr<arrow::Schema> schema, bool agent,
            double idle_s)
      : jobs_(std::move(jobs)), table_(std::move(table)), ticket_(std::move(ticket)),
        schema_(std::move(schema)), agent_(agent), idle_s_(idle_s),
        tap_(std::make_shared<BatchTap>(tasks_of(ticket_), ticket_.tap == TapMode::LOSSLESS,
                                        Bounds{BATCHES_WAITING_MAX, BYTES_WAITING_MAX})) {}
  ~TapStream() override { jobs_->untap(tap_); }

  // Once, first.
  arrow::Status begin(uint32_t n_partitions) {
    ARROW_RETURN_NOT_OK(
        jobs_->tap(ticket_.job, {tap_, ticket_.edge, n_partitions, ticket_.partition}));
    return ended() ? gone(ticket_, "the exchange has ended") : arrow::Status::OK();
  }

  static arrow::Status gone(const PartitionTicket& ticket, const std::string& why) {
    return fault("NotFoundError",
                 why + ", and it was pipelined: its rows were not kept; an exchange with "
                       "mode='materialised' keeps them",
                 {.job = ticket.job, .node = ticket.node_path});
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    out = {};
    const auto quiet = BatchTap::Clock::now() + (greeted_ ? BatchTap::Clock::duration(QUIET)
                                                          : BatchTap::Clock::duration::zero());
    bool ended = false;
    while (!last_) {
      ended = ended || this->ended();  // before the look: what was put before it is seen
      ARROW_RETURN_NOT_OK(told_to_stop());
      TapTotals totals;
      const bool some = tap_->take(out.batch, totals);
      last_ = !some && ended;
      if (some || last_ || (agent_ && BatchTap::Clock::now() >= quiet)) {
        greeted_ = true;
        out.header = told(totals);
        return true;
      }
      ARROW_ASSIGN_OR_RAISE(ended, over());
      if (!ended) tap_->wait(BatchTap::Clock::now() + LOOK);
    }
    return false;
  }

  void cancel() override { tap_->cut(); }

  bool overdue() override {
    const std::chrono::duration<double> idle(idle_s_);
    if (!tap_->blocks_for(std::chrono::duration_cast<BatchTap::Clock::duration>(idle))) {
      return false;
    }
    overdue_.store(true);
    return true;
  }

 private:
  // Whether every row there is was offered.
  bool ended() {
    BatchPort* port = tap_->port();
    return port != nullptr && port->ended(tap_->producers());
  }

  arrow::Status told_to_stop() const {
    if (!tap_->is_cut()) return arrow::Status::OK();
    if (!overdue_.load()) return fault("PeerLostError", "nobody reads this tap any more", where());
    return fault("PeerLostError",
                 "the job waited for this lossless tap for more than " + seconds_text(idle_s_) +
                     " s and nothing was read, so the tap was cut; read faster, or tap lossy",
                 where());
  }

  // Whether the job is over, though not all producers have ended here: well, because its consumer
  // had enough, or not.
  arrow::Result<bool> over() {
    if (const auto pipes = tap_->owner<BatchPipes>(); pipes != nullptr && !ended()) {
      ARROW_RETURN_NOT_OK(pipes->cancellation());
    }
    const EdgePtr edge = table_->edge_numbered(ticket_.job, ticket_.edge);
    if (edge == nullptr) return fault("NotFoundError", "the job was released", where());
    if (edge->state != JOB_FAILED && edge->state != JOB_CANCELLED) return edge->state != 0;
    const char* how = edge->state == JOB_FAILED ? "the job failed: " : "the job was cancelled: ";
    return fault("CancelledError", how + edge->error, where());
  }

  Where where() const { return {.job = ticket_.job, .node = ticket_.node_path}; }

  static std::set<uint32_t> tasks_of(const PartitionTicket& ticket) {
    std::set<uint32_t> tasks;
    for (const ProducerAttempt& one : ticket.producers) tasks.insert(one.task);
    return tasks;
  }

  std::string told(const TapTotals& totals) const {
    return "{\"rows\": " + std::to_string(totals.rows) +
           ", \"skipped\": " + std::to_string(totals.skipped) +
           ", \"end\": " + (last_ ? "true" : "false") + "}";
  }

  const std::shared_ptr<JobPipes> jobs_;
  const std::shared_ptr<const Directory> table_;
  const PartitionTicket ticket_;
  const std::shared_ptr<arrow::Schema> schema_;
  const bool agent_;
  const double idle_s_;
  const std::shared_ptr<BatchTap> tap_;
  std::atomic<bool> overdue_{false};
  bool greeted_ = false, last_ = false;
};

}  // namespace

void bind_taps(Handlers& handlers, std::shared_ptr<JobPipes> jobs,
               std::shared_ptr<const Directory> table, double idle_s) {
  handlers.get = [jobs, table, idle_s, others = std::move(handlers.get)](
                     const Ticket& ticket,
                     bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    if (!is_tap(ticket)) return others(ticket, agent);
    const auto& wanted = std::get<PartitionTicket>(ticket);
    const EdgePtr edge = table->edge_numbered(wanted.job, wanted.edge);
    if (edge == nullptr || edge->state != 0) {
      return TapStream::gone(wanted, "the job has ended");
    }
    ARROW_ASSIGN_OR_RAISE(auto schema, read_schema(edge->schema));
    auto stream =
        std::make_unique<TapStream>(jobs, table, wanted, std::move(schema), agent, idle_s);
    ARROW_RETURN_NOT_OK(stream->begin(edge->n_partitions));
    return stream;
  };
}

}  // namespace fabric
