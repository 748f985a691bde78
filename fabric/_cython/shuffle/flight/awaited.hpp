// How long a call has waited for its client, and the end of those that wait too long.
//
// One job: a clock that runs while the client is to read, write or take its answer, and stands
// while we work. The server's watch breaks the connection off when it ran for too long.
#pragma once
#include <atomic>
#include <chrono>
#include <optional>

#include "flight/cut.hpp"
#include "flight/watch.hpp"

namespace fabric {

class Awaited {
 public:
  // Runs from now on. Without a limit, or an address to cut off, nothing is watched.
  Awaited(std::shared_ptr<Watch> watch, std::string peer, std::optional<double> limit_s)
      : limit_(limit_s.value_or(0)) {
    run();
    if (!limit_s || !has_address(peer)) return;
    watched_.emplace(std::move(watch),
                     Watch::Open{[this] { return overdue(); },
                                 [this, peer = std::move(peer)] { cut(peer); }});
  }

  void run() { since_.store(now(), std::memory_order_relaxed); }
  void stand() { since_.store(0, std::memory_order_relaxed); }

 private:
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  bool overdue() const {
    using Ticks = std::chrono::steady_clock::duration;
    const int64_t since = since_.load(std::memory_order_relaxed);
    return since != 0 && !cut_.load() && Ticks(now() - since) > limit_;
  }
  void cut(const std::string& peer) {
    cut_.store(true);
    cut_connection(peer);
  }

  const std::chrono::duration<double> limit_;
  std::atomic<int64_t> since_{0};
  std::atomic<bool> cut_{false};
  std::optional<Watched> watched_;  // last: it uses all of the above from another thread
};

// The clock stands for as long as this lives.
class OurTurn {
 public:
  explicit OurTurn(Awaited* awaited) : awaited_(awaited) {
    if (awaited_ != nullptr) awaited_->stand();
  }
  OurTurn(const OurTurn&) = delete;
  ~OurTurn() {
    if (awaited_ != nullptr) awaited_->run();
  }

 private:
  Awaited* awaited_;
};

// And runs for as long as this does.
class ClientsTurn {
 public:
  explicit ClientsTurn(Awaited& awaited) : awaited_(awaited) { awaited_.run(); }
  ClientsTurn(const ClientsTurn&) = delete;
  ~ClientsTurn() { awaited_.stand(); }

 private:
  Awaited& awaited_;
};

}  // namespace fabric
