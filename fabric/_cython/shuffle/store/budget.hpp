// Bytes of decoded rows that an agent may hold, shared by all its edges.
//
// One job: count, and let those wait who may. A share is what one holder (a stored output, a stream
// from another agent) has of the budget. Whoever holds nothing is always let in, even over the
// budget: so each edge can move one message at a time, and no chain of edges can block itself. Who
// waits is served in order; before somebody waits, the relief (a store that spills) may make room.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

namespace fabric {

class Budget {
 public:
  explicit Budget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  int64_t bytes_max() const { return bytes_max_; }
  int64_t used_bytes() const;
  bool has_room(int64_t n_bytes) const;
  // Called with no lock held when so many bytes find no room.
  void set_relief(std::function<void(int64_t)> relief);
  // How many wait for room now.
  int64_t n_waiting() const;

 private:
  friend class Share;

  void give_back(int64_t n_bytes);  // under the lock
  bool fits(int64_t n_bytes) const { return used_ + n_bytes <= bytes_max_; }

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t used_ = 0;
  uint64_t turns_ = 0;
  std::function<void(int64_t)> relief_;
  std::set<uint64_t> waiting_;  // turns of those who wait, the oldest first
};

// Thread-safe. What is still held goes back when it is closed or destroyed.
class Share {
 public:
  explicit Share(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~Share() { close(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Wait for room, never under a lock of yours nor with the GIL; false when closed meanwhile.
  bool reserve(int64_t n_bytes);

  // Take room when there is some, nobody waits for it, and it is not closed.
  bool try_reserve(int64_t n_bytes);

  // Count bytes that are there whatever the budget says; nothing when closed.
  void take(int64_t n_bytes);

  void give_back(int64_t n_bytes);

  // Give all back and wake who waits on this share; returns what it held.
  int64_t close();

  int64_t held_bytes() const;

 private:
  bool add(int64_t n_bytes);  // under the lock

  const std::shared_ptr<Budget> budget_;
  int64_t held_ = 0;
  bool closed_ = false;
};

}  // namespace fabric
