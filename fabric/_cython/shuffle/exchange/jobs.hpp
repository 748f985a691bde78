// The pipelined edges of every job on this agent, for streams that ask by the job's name.
//
// One job: names to pipes. A consumer's agent may ask before this one was told of the job, so
// asking waits.
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

class JobPipes {
 public:
  void add(const std::string& job, std::shared_ptr<BatchPipes> pipes) {
    const std::lock_guard held(mutex_);
    jobs_[job] = {std::move(pipes), std::make_shared<Attempts>()};
    changed_.notify_all();
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
};

}  // namespace fabric
