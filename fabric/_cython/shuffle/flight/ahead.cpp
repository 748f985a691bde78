// A thread that reads, and those who take what it has read.
#include "flight/ahead.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "wire/condition.hpp"
#include "wire/fault.hpp"

namespace fabric {

struct Ahead::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<MessageStream> source;
  std::deque<Message> ready;
  arrow::Status status;
  bool cancelled = false, over = false;
};

Ahead::Ahead(std::unique_ptr<MessageStream> source)
    : schema_(source->schema()), shared_(std::make_shared<Shared>()) {
  shared_->source = std::move(source);
  std::thread([shared = shared_] { read(*shared); }).detach();
}

arrow::Result<bool> Ahead::next(Message& out) {
  std::unique_lock lock(shared_->mutex);
  wait_until_true(shared_->changed, lock, [this] {
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

void Ahead::cancel() {
  std::lock_guard lock(shared_->mutex);
  shared_->cancelled = true;
  if (!shared_->over) shared_->source->cancel();
  shared_->changed.notify_all();
}

void Ahead::read(Shared& shared) {
  while (true) {
    Message message;
    const arrow::Result<bool> more = shared.source->next(message);
    std::unique_lock lock(shared.mutex);
    if (!more.ok() || !*more) {
      shared.status = more.status();
      break;
    }
    wait_until_true(shared.changed, lock, [&] {
      return shared.cancelled || shared.ready.size() < MESSAGES_MAX;
    });
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

}  // namespace fabric
