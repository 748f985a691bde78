// Ends the waits of calls whose clients went away, or who take too long: Flight has no call-back.
//
// One job: one thread a server that asks every open stream four times a second, and cancels those
// that nobody waits for (it sleeps while no stream is open); and the clock of a call, which runs
// while the client is to read, write or take its answer, and stands while we work.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace fabric {

class Watch {
 public:
  struct Open {
    std::function<bool()> gone;
    std::function<void()> cancel;  // only wakes: neither waits nor frees rows
  };

  Watch();
  ~Watch();

  uint64_t add(Open open);
  // Afterwards neither function is called any more.
  void remove(uint64_t id);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Open> open_;
  uint64_t last_ = 0;
  bool over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

// A stream's place in the watch for as long as it lives.
class Watched {
 public:
  Watched(std::shared_ptr<Watch> watch, Watch::Open open);
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched();

 private:
  std::shared_ptr<Watch> watch_;
  uint64_t id_;
};

// How long a call has waited for its client. The watch breaks the connection off when its clock ran
// for too long.
class Awaited {
 public:
  // Runs from now on. Without a limit, or an address to cut off, nothing is watched.
  Awaited(std::shared_ptr<Watch> watch, std::string peer, std::optional<double> limit_s);

  void run();
  void stand();

 private:
  bool overdue() const;
  void cut(const std::string& peer);

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
