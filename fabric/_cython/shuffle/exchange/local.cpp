// The consumers' side of a pipelined edge, with an agent of the same process.
#include <arrow/record_batch.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "exchange/jobs.hpp"
#include "exchange/open.hpp"
#include "ring/batches.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

// Between two agents of one process, from ring to ring: nothing is copied or sent. One thread for
// each partition moves items, so that a partition that nobody reads stalls no other.
class LocalExchange : public OpenExchange {
 public:
  LocalExchange(std::shared_ptr<JobPipes> from, std::shared_ptr<BatchPipes> to,
                ExchangeRequest request, double idle_s)
      : from_(std::move(from)), to_(std::move(to)), request_(std::move(request)), idle_s_(idle_s) {}
  ~LocalExchange() override { close(); }

  void start() {
    for (const WantedPartition& one : request_.wanted) {
      threads_.emplace_back([this, one] { note(move_all(one)); });
    }
  }

  void close() override {
    over_.store(true);
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  arrow::Status failure() override {
    const std::lock_guard held(mutex_);
    return error_;
  }
  uint64_t rows() const override { return rows_.load(); }

 private:
  static constexpr auto LOOK = std::chrono::milliseconds(100);  // how often a close is looked for
  static constexpr size_t ITEMS_MAX = 16;

  void note(const arrow::Status& status) {
    if (status.ok() || over_.load()) return;
    {
      const std::lock_guard held(mutex_);
      if (error_.ok()) error_ = status;
    }
    to_->cancel("an exchange with another agent failed: " + status.message());
  }

  arrow::Status move_all(const WantedPartition& wanted) {
    const auto start = std::chrono::steady_clock::now();
    Producing producing;
    while (producing.pipes == nullptr) {
      const auto now = std::chrono::steady_clock::now();
      if (over_.load()) return arrow::Status::OK();
      if (now - start > std::chrono::duration<double>(idle_s_)) {
        return fault("PartitionLostError", "the producers' agent does not know the job",
                     request_.where());
      }
      producing = from_->wait_for(request_.job, now + LOOK);
    }
    BatchPort *source = nullptr, *target = nullptr;
    ARROW_RETURN_NOT_OK(find(*producing.pipes, wanted.partition, source));
    ARROW_RETURN_NOT_OK(find(*to_, wanted.partition, target));
    for (uint32_t n_open = wanted.n_producers; n_open > 0 && !over_.load();) {
      ARROW_RETURN_NOT_OK(move_some(*producing.pipes, source, target, n_open));
      if (target->closed()) {
        BatchPipes::close(*source);
        return arrow::Status::OK();
      }
    }
    return arrow::Status::OK();
  }

  arrow::Status find(BatchPipes& pipes, uint32_t partition, BatchPort*& port) const {
    ARROW_RETURN_NOT_OK(
        pipes.status(pipes.declare(request_.edge, request_.n_partitions, 0, 0)));
    return pipes.status(pipes.find(request_.edge, partition, port));
  }

  arrow::Status move_some(BatchPipes& pipes, BatchPort* source, BatchPort* target,
                          uint32_t& n_open) {
    BatchPipes::Taking taking;
    BatchPort* const sources[] = {source};
    ARROW_RETURN_NOT_OK(pipes.status(
        pipes.take(sources, ITEMS_MAX, taking, std::chrono::steady_clock::now() + LOOK)));
    BatchPipes::Putting putting;
    for (auto& taken : taking.items) {
      if (taken.item.is_rows()) rows_.fetch_add(taken.item.rows);
      if (taken.item.kind == Kind::END) --n_open;
      putting.sends.push_back({target, std::move(taken.item)});
    }
    while (!putting.sends.empty() && !over_.load()) {
      ARROW_RETURN_NOT_OK(
          to_->status(to_->put(putting, std::chrono::steady_clock::now() + LOOK)));
    }
    return arrow::Status::OK();
  }

  const std::shared_ptr<JobPipes> from_;
  const std::shared_ptr<BatchPipes> to_;
  const ExchangeRequest request_;
  const double idle_s_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> rows_{0};
  std::mutex mutex_;
  arrow::Status error_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::shared_ptr<OpenExchange> open_local_exchange(std::shared_ptr<JobPipes> from,
                                                  std::shared_ptr<BatchPipes> to,
                                                  ExchangeRequest request, double idle_s) {
  auto opened = std::make_shared<LocalExchange>(std::move(from), std::move(to),
                                                std::move(request), idle_s);
  opened->start();
  return opened;
}

}  // namespace fabric
