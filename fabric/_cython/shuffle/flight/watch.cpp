// The thread of a server's watch, and the clocks of its calls: see `watch.hpp`.
//
// One job: ask, and cancel or cut the connection off.
#include "flight/watch.hpp"

#include "flight/cut.hpp"
#include "wire/condition.hpp"

namespace fabric {

Watch::Watch() : thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t Watch::add(Open open) {
  std::lock_guard lock(mutex_);
  open_.emplace(++last_, std::move(open));
  changed_.notify_all();
  return last_;
}

void Watch::remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  open_.erase(id);
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (open_.empty()) {
      wait_until_true(changed_, lock, [this] { return over_ || !open_.empty(); });
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(250), [this] { return over_; });
    }
    for (auto& [id, open] : open_) {
      if (open.gone()) open.cancel();
    }
  }
}

Watched::Watched(std::shared_ptr<Watch> watch, Watch::Open open)
    : watch_(std::move(watch)), id_(watch_->add(std::move(open))) {}

Watched::~Watched() { watch_->remove(id_); }

namespace {

int64_t ticks_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Awaited::Awaited(std::shared_ptr<Watch> watch, std::string peer, std::optional<double> limit_s)
    : limit_(limit_s.value_or(0)) {
  run();
  if (!limit_s || !has_address(peer)) return;
  watched_.emplace(std::move(watch),
                   Watch::Open{[this] { return overdue(); },
                               [this, peer = std::move(peer)] { cut(peer); }});
}

void Awaited::run() { since_.store(ticks_now(), std::memory_order_relaxed); }

void Awaited::stand() { since_.store(0, std::memory_order_relaxed); }

bool Awaited::overdue() const {
  using Ticks = std::chrono::steady_clock::duration;
  const int64_t since = since_.load(std::memory_order_relaxed);
  return since != 0 && !cut_.load() && Ticks(ticks_now() - since) > limit_;
}

void Awaited::cut(const std::string& peer) {
  cut_.store(true);
  cut_connection(peer);
}

}  // namespace fabric
