// How shares take bytes of a budget, in turn, and give them back.
#include "store/budget.hpp"

#include <utility>

#include "wire/condition.hpp"

namespace fabric {

int64_t Budget::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}

bool Budget::has_room(int64_t n_bytes) const {
  std::lock_guard lock(mutex_);
  return fits(n_bytes);
}

void Budget::set_relief(std::function<void(int64_t)> relief) {
  std::lock_guard lock(mutex_);
  relief_ = std::move(relief);
}

int64_t Budget::n_waiting() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(waiting_.size());
}

void Budget::give_back(int64_t n_bytes) {
  used_ -= n_bytes;
  if (!waiting_.empty()) changed_.notify_all();
}

bool Share::reserve(int64_t n_bytes) {
  std::unique_lock lock(budget_->mutex_);
  if (budget_->relief_ && held_ != 0 && !closed_ && !budget_->fits(n_bytes)) {
    const auto relief = budget_->relief_;
    lock.unlock();
    relief(n_bytes);
    lock.lock();
  }
  const uint64_t turn = budget_->turns_++;
  budget_->waiting_.insert(turn);
  wait_until_true(budget_->changed_, lock, [&] {
    return closed_ || held_ == 0 ||
           (*budget_->waiting_.begin() == turn && budget_->fits(n_bytes));
  });
  budget_->waiting_.erase(turn);
  if (!budget_->waiting_.empty()) budget_->changed_.notify_all();
  return add(n_bytes);
}

bool Share::try_reserve(int64_t n_bytes) {
  std::lock_guard lock(budget_->mutex_);
  if (held_ != 0 && !(budget_->waiting_.empty() && budget_->fits(n_bytes))) return false;
  return add(n_bytes);
}

void Share::take(int64_t n_bytes) {
  std::lock_guard lock(budget_->mutex_);
  add(n_bytes);
}

void Share::give_back(int64_t n_bytes) {
  std::lock_guard lock(budget_->mutex_);
  if (closed_) return;
  held_ -= n_bytes;
  budget_->give_back(n_bytes);
}

int64_t Share::close() {
  std::lock_guard lock(budget_->mutex_);
  if (closed_) return 0;
  closed_ = true;
  const int64_t held = std::exchange(held_, 0);
  budget_->give_back(held);
  return held;
}

int64_t Share::held_bytes() const {
  std::lock_guard lock(budget_->mutex_);
  return held_;
}

bool Share::add(int64_t n_bytes) {
  if (closed_) return false;
  held_ += n_bytes;
  budget_->used_ += n_bytes;
  return true;
}

}  // namespace fabric
