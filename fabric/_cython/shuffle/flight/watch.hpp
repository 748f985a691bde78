// Ends the waits of calls whose clients went away: Flight has no call-back for that.
//
// One job: one thread a server that asks every open stream four times a second, and cancels those
// that nobody waits for; it sleeps while no stream is open.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace fabric {

class Watch {
 public:
  struct Open {
    std::function<bool()> gone;
    std::function<void()> cancel;  // only wakes: neither waits nor frees rows
  };

  Watch() : thread_([this] { run(); }) {}
  ~Watch() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  uint64_t add(Open open) {
    std::lock_guard lock(mutex_);
    open_.emplace(++last_, std::move(open));
    changed_.notify_all();
    return last_;
  }
  // Afterwards neither function is called any more.
  void remove(uint64_t id) {
    std::lock_guard lock(mutex_);
    open_.erase(id);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (open_.empty()) {
        changed_.wait(lock, [this] { return over_ || !open_.empty(); });
      } else {
        changed_.wait_for(lock, std::chrono::milliseconds(250), [this] { return over_; });
      }
      for (auto& [id, open] : open_) {
        if (open.gone()) open.cancel();
      }
    }
  }

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
  Watched(std::shared_ptr<Watch> watch, Watch::Open open)
      : watch_(std::move(watch)), id_(watch_->add(std::move(open))) {}
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() { watch_->remove(id_); }

 private:
  std::shared_ptr<Watch> watch_;
  uint64_t id_;
};

}  // namespace fabric
