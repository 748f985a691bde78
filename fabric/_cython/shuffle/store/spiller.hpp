// Who goes to the disk when the agent's budget is over.
//
// One job: make room. Whoever added rows, or wants to read some, asks for it before anything else;
// the output with most in memory goes first, those of other tasks and jobs too, until all fits.
//
// Nobody can wait for ever: a spill waits for nothing but the disk. It takes no room itself (a
// message of at most 4 MiB at a time apart), holds no lock that a writer or reader needs to go on,
// and depends on no task. Who asks while all that could go is on its way waits for these spills to
// end; when nothing is left that could go, it is let in: then it has its own rows alone, which go
// next. So with any budget each writer is over it by one batch at most, each stream by one message.
#pragma once
#include <set>

#include "store/output.hpp"

namespace fabric {

class Spiller {
 public:
  explicit Spiller(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  void add(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    outputs_.push_back(output);
    if (outputs_.size() >= sweep_at_) {
      std::erase_if(outputs_, [](const auto& known) { return known.expired(); });
      sweep_at_ = 2 * outputs_.size() + 64;
    }
  }

  // Until `n_bytes` more fit, or nothing is left to spill; call it without locks. The error of a
  // full disk is that of whoever asked.
  arrow::Status make_room(int64_t n_bytes) {
    while (!budget_->has_room(n_bytes)) {
      std::vector<std::shared_ptr<Output>> seen;  // destroyed without the lock
      std::shared_ptr<Output> victim;
      {
        std::unique_lock lock(mutex_);
        victim = choose(seen);
        if (victim == nullptr) {
          if (busy_.empty()) return arrow::Status::OK();
          changed_.wait(lock);
          continue;
        }
        busy_.insert(victim.get());
      }
      const arrow::Status spilled = victim->spill();
      std::lock_guard lock(mutex_);
      busy_.erase(victim.get());
      changed_.notify_all();
      ARROW_RETURN_NOT_OK(spilled);
    }
    return arrow::Status::OK();
  }

  // Keep a sealed output in memory, because somebody holds its rows anyway; false when some of them
  // are on the disk or on their way, or when half of the budget would be kept.
  bool keep(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    if (output->n_runs() > 0 || busy_.contains(output.get())) return false;
    const bool fresh = !kept_.contains(output.get());
    const int64_t n_bytes = kept_bytes_ + (fresh ? output->memory_bytes() : 0);
    if (n_bytes > budget_->bytes_max() / 2) return false;
    kept_.insert(output.get());
    kept_bytes_ = n_bytes;
    return true;
  }

  void let_go(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    kept_.erase(kept_.find(output.get()));
    if (!kept_.contains(output.get())) kept_bytes_ -= output->memory_bytes();
  }

 private:
  // Under the lock.
  std::shared_ptr<Output> choose(std::vector<std::shared_ptr<Output>>& seen) {
    std::shared_ptr<Output> found;
    for (const auto& known : outputs_) {
      const auto output = seen.emplace_back(known.lock());
      if (output == nullptr || output->closed() || output->memory_bytes() == 0) continue;
      if (kept_.contains(output.get()) || busy_.contains(output.get())) continue;
      if (found == nullptr || output->memory_bytes() > found->memory_bytes()) found = output;
    }
    return found;
  }

  const std::shared_ptr<Budget> budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Output>> outputs_;
  size_t sweep_at_ = 64;
  std::set<const Output*> busy_;
  std::multiset<const Output*> kept_;
  int64_t kept_bytes_ = 0;
};

}  // namespace fabric
