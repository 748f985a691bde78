// Who may stay connected to a port of this process.
//
// One job: count the connections of one listening port by what they have shown, and end those that
// nobody misses, so that no crowd keeps others out. A stranger has shown nothing yet; it ends after
// `handshake_s`, or when it sent more than it may without a token. Strangers have a quarter of the
// places (a half in the moment in which their tokens are still on the way), clients with a token a
// half, one address half of either; agents have what is left. Of strangers the oldest make room, of
// clients the newest. gRPC and others accept connections by themselves, so they are found among the
// descriptors of the process when one arrives; nothing stands between a connection and who serves
// it. Peers are named as gRPC names them; what comes by a Unix socket has no address and is not
// counted.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fabric {

struct Capacity {
  int64_t connections_max = 4096;
  double handshake_s = 20;
  int64_t stranger_bytes = 0;  // 0: not counted
};

// What a crowd can add to `connections_max` before it is noticed.
inline int64_t surge(int64_t connections_max) { return connections_max + connections_max / 4 + 16; }

class Admission {
 public:
  enum class Kind : uint32_t { STRANGER, CLIENT, AGENT };

  explicit Admission(const Capacity& capacity);
  ~Admission();
  Admission(const Admission&) = delete;

  // Begin with the connections to `port`, on which somebody listens; once.
  void watch(int port);
  // What `peer` has shown; a stranger's time begins anew. An agent stays one.
  void admit(const std::string& peer, Kind kind);
  int64_t count(Kind kind) const;
  // How many were ended.
  int64_t ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Kind kind = Kind::STRANGER;
    bool over = false;      // ended by us, and perhaps still there
    int fd = -1;            // as the last look found it
    uint64_t look = 0;      // the last that saw it
    Clock::time_point since{}, shown{};
    std::optional<Clock::time_point> much;  // since when it has sent more than a stranger may
  };
  using Named = std::pair<const std::string, Entry>;

  void run();
  void look();
  void judge(bool looked);
  void bound(std::vector<Named*>& those, int64_t places, bool oldest);
  void end(Named& one);
  int wait_ms() const;
  void later(std::chrono::milliseconds time);
  void wake() const;

  const Capacity capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  Clock::time_point due_ = Clock::time_point::max();  // when strangers are judged again
  std::vector<Clock::time_point> looks_;  // to come
  Clock::time_point looked_{};
  Clock::duration pause_{};  // between two looks
  std::atomic<int64_t> ended_{0};
  std::atomic<bool> over_{false};
  uint64_t n_looks_ = 0;
  int port_ = 0, events_ = -1, wake_ = -1;
  std::thread thread_;
};

}  // namespace fabric
