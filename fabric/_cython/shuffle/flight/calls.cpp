// Places of calls, the thread of a server's watch, and the clocks of its calls: see `calls.hpp`.
#include "flight/calls.hpp"

#include <arrow/status.h>

#include <algorithm>

#include "grpc/abi.hpp"
#include "wire/condition.hpp"
#include "wire/fault.hpp"
#include "wire/sockets.hpp"

namespace fabric {
namespace {

constexpr int64_t STRANGERS_SHARE = 4;  // of all places

int64_t ticks_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Inside::Inside(const Limits& limits)
    : most_(limits.streams_max), peer_most_(limits.peer_streams_max) {}

arrow::Status Inside::enter(const Guest& guest) {
  std::lock_guard lock(mutex_);
  if (closed_) return fault("PeerLostError", "this agent is shutting down; ask another one");
  if (guest.kind != Guest::Kind::AGENT) ARROW_RETURN_NOT_OK(place(guest));
  ++n_;
  changes_ += guest.stream;
  return arrow::Status::OK();
}

void Inside::leave(const Guest& guest) {
  std::lock_guard lock(mutex_);
  --n_;
  changes_ += guest.stream;
  clients_ -= guest.kind != Guest::Kind::AGENT;
  strangers_ -= guest.kind == Guest::Kind::STRANGER;
  const auto mine = peers_.find(guest.name);
  if (mine != peers_.end() && --mine->second == 0) peers_.erase(mine);
  changed_.notify_all();
}

void Inside::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

bool Inside::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

bool Inside::wait_empty(double timeout_s) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                           [this] { return n_ == 0; });
}

int64_t Inside::open() const {
  std::lock_guard lock(mutex_);
  return n_;
}

int64_t Inside::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

void Inside::set_most(int64_t most) {
  std::lock_guard lock(mutex_);
  most_ = most;
}

arrow::Status Inside::place(const Guest& guest) {
  const bool stranger = guest.kind == Guest::Kind::STRANGER;
  const int64_t strangers_most = std::max<int64_t>(1, most_ / STRANGERS_SHARE);
  if (clients_ >= most_ || (stranger && strangers_ >= strangers_most)) {
    return fault("PeerLostError", "this agent already serves " +
                                      std::to_string(stranger ? strangers_ : clients_) +
                                      " calls at once; try again later");
  }
  int64_t& mine = peers_[guest.name];
  if (mine >= peer_most_) {
    return fault("PeerLostError", "this client already has " + std::to_string(mine) +
                                      " calls open here; let some end first");
  }
  ++mine;
  ++clients_;
  strangers_ += stranger;
  return arrow::Status::OK();
}

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
