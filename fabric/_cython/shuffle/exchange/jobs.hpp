// The pipelined edges of every job on this agent, for streams that ask by the job's name.
//
// One job: names to pipes. A consumer's agent may ask before this one was told of the job, so
// asking waits, and so does a tap.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>

#include "ring/batches.hpp"

namespace fabric {

// The attempt of every producer task of a job's pipelined edges.
class Attempts {
 public:
  void set(uint32_t edge, uint32_t producer, uint32_t attempt) {
    const std::lock_guard held(mutex_);
    attempts_[{edge, producer}] = attempt;
  }
  uint32_t of(uint32_t edge, uint32_t producer) const {
    const std::lock_guard held(mutex_);
    const auto found = attempts_.find({edge, producer});
    return found == attempts_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> attempts_;
};

// One job's producers on this agent; no pipes: it is not known.
struct Producing {
  std::shared_ptr<BatchPipes> pipes;
  std::shared_ptr<Attempts> attempts;
};

// A tap and the partition that it wants.
struct WantedTap {
  std::shared_ptr<BatchTap> tap;
  uint32_t edge = 0, n_partitions = 0, partition = 0;

  arrow::Status attach(const std::shared_ptr<BatchPipes>& pipes) const {
    BatchPort* port = nullptr;
    ARROW_RETURN_NOT_OK(pipes->status(pipes->declare(edge, n_partitions, 0, 0)));
    ARROW_RETURN_NOT_OK(pipes->status(pipes->find(edge, partition, port)));
    port->set_native();
    port->add(tap, pipes);
    return arrow::Status::OK();
  }
};

class JobPipes {
 public:
  void add(const std::string& job, std::shared_ptr<BatchPipes> pipes) {
    const std::lock_guard held(mutex_);
    const auto [first, last] = taps_.equal_range(job);
    for (auto at = first; at != last; ++at) {
      if (!at->second.attach(pipes).ok()) at->second.tap->cut();  // its number is out of range
    }
    taps_.erase(first, last);
    jobs_[job] = {std::move(pipes), std::make_shared<Attempts>()};
    changed_.notify_all();
  }

  // From now on the tap sees the rows of its partition, also when the job's first task is yet to
  // come.
  arrow::Status tap(const std::string& job, const WantedTap& wanted) {
    const std::lock_guard held(mutex_);
    if (const auto found = jobs_.find(job); found != jobs_.end()) {
      return wanted.attach(found->second.pipes);
    }
    taps_.emplace(job, wanted);
    return arrow::Status::OK();
  }

  void untap(const std::shared_ptr<BatchTap>& tap) {
    {
      const std::lock_guard held(mutex_);
      std::erase_if(taps_, [&](const auto& one) { return one.second.tap == tap; });
    }
    tap->cut();
    if (BatchPort* port = tap->port()) port->remove(*tap);
  }

  // A task attempt begins to write to `edge`.
  void begin(const std::string& job, uint32_t edge, uint32_t producer, uint32_t attempt) {
    const std::lock_guard held(mutex_);
    if (const auto found = jobs_.find(job); found != jobs_.end()) {
      found->second.attempts->set(edge, producer, attempt);
    }
  }

  void remove(const std::string& job) {
    Producing gone;  // destroyed without the lock
    const std::lock_guard held(mutex_);
    if (const auto found = jobs_.find(job); found != jobs_.end()) {
      gone = std::move(found->second);
      jobs_.erase(found);
    }
  }

  // Until the job is known or `deadline`.
  Producing wait_for(const std::string& job, Deadline deadline) const {
    std::unique_lock held(mutex_);
    changed_.wait_until(held, deadline, [&] { return jobs_.contains(job); });
    const auto found = jobs_.find(job);
    return found == jobs_.end() ? Producing{} : found->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Producing> jobs_;
  std::multimap<std::string, WantedTap> taps_;  // of jobs that are not known yet
};

}  // namespace fabric
