// The calls that are open in a server: how many there may be, and how long each waits for its
// client.
//
// One job: bound their number, of all and of one client, and end the waits of calls whose clients
// went away or take too long, for which Flight has no call-back. Agents always find a place, and
// clients with a token have places that clients without one can't take. One thread a server asks
// every open stream four times a second, and cancels those that nobody waits for (it sleeps while
// no stream is open); the clock of a call runs while the client is to read, write or take its
// answer, and stands while we work.
#pragma once
#include <arrow/type_fwd.h>

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
#include <unordered_map>

namespace fabric {

struct Limits;

// Who makes a call, as far as places are given out.
struct Guest {
  enum class Kind { AGENT, CLIENT, STRANGER };  // a stranger has shown no token
  Kind kind = Kind::STRANGER;
  std::string name;    // whose calls are counted together
  bool stream = true;  // moves rows
};

class Inside {
 public:
  explicit Inside(const Limits& limits);

  arrow::Status enter(const Guest& guest);
  void leave(const Guest& guest);
  void close();
  bool closed() const;
  bool wait_empty(double timeout_s);
  int64_t open() const;
  // Grows when a stream begins or ends.
  int64_t changes() const;
  void set_most(int64_t most);

 private:
  arrow::Status place(const Guest& guest);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t n_ = 0, clients_ = 0, strangers_ = 0, changes_ = 0, most_;
  const int64_t peer_most_;
  std::unordered_map<std::string, int64_t> peers_;
  bool closed_ = false;
};

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
