// Reading a stream ahead whose waits can't be ended: a thread of its own reads.
//
// One job: `next` that returns as soon as `cancel` was called, over a MessageStream that may sit in
// a wait. At most `MESSAGES_MAX` messages lie ready. The thread ends when the source lets go of it.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "store/message.hpp"
#include "wire/fault.hpp"

namespace fabric {

class Ahead : public MessageStream {
 public:
  static constexpr size_t MESSAGES_MAX = 4;

  explicit Ahead(std::unique_ptr<MessageStream> source)
      : schema_(source->schema()), shared_(std::make_shared<Shared>()) {
    shared_->source = std::move(source);
    std::thread([shared = shared_] { read(*shared); }).detach();
  }
  ~Ahead() override { cancel(); }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [this] {
      return shared_->cancelled || shared_->over || !shared_->ready.empty();
    });
    if (shared_->cancelled) return fault("PeerLostError", "nobody waits for this stream any more");
    if (shared_->ready.empty()) {
      ARROW_RETURN_NOT_OK(shared_->status);
      return false;
    }
    out = std::move(shared_->ready.front());
    shared_->ready.pop_front();
    shared_->changed.notify_all();
    return true;
  }

  void cancel() override {
    std::lock_guard lock(shared_->mutex);
    shared_->cancelled = true;
    if (!shared_->over) shared_->source->cancel();
    shared_->changed.notify_all();
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_ptr<MessageStream> source;
    std::deque<Message> ready;
    arrow::Status status;
    bool cancelled = false, over = false;
  };

  static void read(Shared& shared) {
    while (true) {
      Message message;
      const arrow::Result<bool> more = shared.source->next(message);
      std::unique_lock lock(shared.mutex);
      if (!more.ok() || !*more) {
        shared.status = more.status();
        break;
      }
      shared.changed.wait(
          lock, [&] { return shared.cancelled || shared.ready.size() < MESSAGES_MAX; });
      if (shared.cancelled) break;
      shared.ready.push_back(std::move(message));
      shared.changed.notify_all();
    }
    std::unique_ptr<MessageStream> done;
    {
      std::lock_guard lock(shared.mutex);
      shared.over = true;
      done = std::move(shared.source);  // freed outside the lock: it may take the GIL
      shared.changed.notify_all();
    }
  }

  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fabric
