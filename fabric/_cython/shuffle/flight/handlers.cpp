// Where the rows of a ticket come from: the store of this agent, a fetch from another one, Python.
#include "flight/handlers.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "pump/fetch.hpp"
#include "store/message.hpp"
#include "store/store.hpp"
#include "wire/check.hpp"
#include "wire/condition.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

// The agent's token, good for an hour, asked for anew after half of that.
class AgentToken {
 public:
  arrow::Result<std::string> get(const Passing& passing) {
    using namespace std::chrono;
    const auto now = steady_clock::now();
    {
      const std::lock_guard lock(mutex_);
      if (!token_.empty() && now < until_) return token_;
    }
    std::string fresh;
    ARROW_RETURN_NOT_OK(passing.token(passing.transport.get(), fresh));
    const std::lock_guard lock(mutex_);
    token_ = fresh;
    until_ = now + minutes(15);  // what Python gives holds for half an hour at least
    return fresh;
  }

 private:
  std::mutex mutex_;
  std::string token_;
  std::chrono::steady_clock::time_point until_;
};

// A fetch that ends when nobody reads it any more. Its schema is that of the location, but a tap
// waits for its own: then the other agent has opened it.
class Passed : public MessageStream {
 public:
  Passed(std::shared_ptr<Fetch> fetch, bool tap) : fetch_(std::move(fetch)), tap_(tap) {
    fetch_->start();
  }
  ~Passed() override { fetch_->stop(); }
  std::shared_ptr<arrow::Schema> schema() const override {
    return tap_ ? fetch_->schema() : nullptr;
  }
  arrow::Result<bool> next(Message& out) override { return fetch_->next(out); }
  void cancel() override { fetch_->stop(); }

 private:
  std::shared_ptr<Fetch> fetch_;
  bool tap_;
};

std::string tasks_text(const std::vector<ProducerAttempt>& producers) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(producers.size(), 5); ++i) {
    text += (text.empty() ? "" : ", ") + std::to_string(producers[i].task) + "#" +
            std::to_string(producers[i].attempt);
  }
  return text;
}

std::shared_ptr<Fetch> fetch_of(const Passing& passing, const std::string& address,
                                const Ticket& ticket, const std::string& token) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  FetchOrder order;
  order.address = address;
  order.ticket = make_ticket(passing.ticket_key, ticket,
                             std::chrono::duration<double>(wall).count() + 3600);
  order.headers = {{"authorization", "Bearer " + token}};
  order.idle_s = passing.idle_s;
  order.where.agent = address;
  std::vector<ProducerAttempt> producers{{0, 0}};
  uint32_t partition = 0, edge = 0;
  std::string of;
  if (const auto* edges = std::get_if<PartitionTicket>(&ticket)) {
    of = order.where.job = edges->job;
    order.where.node = edges->node_path;
    order.where.task = tasks_text(edges->producers);
    partition = edges->partition;
    edge = edges->edge;
    producers = edges->producers;
    order.subject = "partition " + std::to_string(partition) + " of edge " +
                    std::to_string(edge) + " from task " + order.where.task + ": ";
  } else {
    const auto& dataset = std::get<DatasetTicket>(ticket);
    of = dataset.name;
    partition = dataset.partition;
    order.subject = "partition " + std::to_string(partition) + " of dataset '" + of + "': ";
  }
  std::optional<StreamCheck> check;  // a tap has no headers to check, and can't be tried again
  if (!is_tap(ticket)) {
    check.emplace(of, edge, producers, partition, order.where, true, passing.cpu);
  }
  return std::make_shared<Fetch>(passing.pool, std::move(order), std::move(check));
}

// Reads a stream ahead whose waits can't be ended: a thread of its own reads, and `next` returns as
// soon as `cancel` was called. The thread ends when the source lets go of it.
class Ahead : public MessageStream {
 public:
  static constexpr size_t MESSAGES_MAX = 4;  // that lie ready

  explicit Ahead(std::unique_ptr<MessageStream> source);
  ~Ahead() override { cancel(); }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Result<bool> next(Message& out) override;
  void cancel() override;

 private:
  struct Shared;
  static void read(Shared& shared);

  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<Shared> shared_;
};

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

// An iterator of Python's over (header or None, batch).
class PythonStream : public MessageStream {
 public:
  using Step = arrow::Status (*)(PyObject* items, Message& out, bool& more);

  PythonStream(std::shared_ptr<arrow::Schema> schema, PyRef items, Step step)
      : schema_(std::move(schema)), items_(std::move(items)), step_(step) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Result<bool> next(Message& out) override {
    bool more = false;
    ARROW_RETURN_NOT_OK(step_(items_.get(), out, more));
    return more;
  }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  PyRef items_;
  Step step_;
};

std::unique_ptr<MessageStream> read_ahead(const PythonVerbs& python, Opened opened) {
  return std::make_unique<Ahead>(std::make_unique<PythonStream>(
      std::move(opened.schema), std::move(opened.items), python.step));
}

}  // namespace

void set_store(Handlers& handlers, std::shared_ptr<const Store> store) {
  handlers.get = [store = std::move(store), others = std::move(handlers.get)](
                     const Ticket& ticket,
                     bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    const auto* partition = std::get_if<PartitionTicket>(&ticket);
    return partition == nullptr ? others(ticket, agent) : store->open(*partition, agent);
  };
}

void set_passing(Handlers& handlers, const Passing& passing) {
  handlers.fetch = [passing, others = std::move(handlers.fetch),
                    known = std::make_shared<AgentToken>()](
                       const std::string& address,
                       const Ticket& ticket) -> arrow::Result<std::unique_ptr<MessageStream>> {
    if (!address.starts_with("grpc")) return others(address, ticket);
    ARROW_ASSIGN_OR_RAISE(const std::string token, known->get(passing));
    return std::make_unique<Passed>(fetch_of(passing, address, ticket, token), is_tap(ticket));
  };
}

void set_get(Handlers& handlers, const PythonVerbs& python) {
  handlers.get = [python](const Ticket& ticket,
                          bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.get(python.face.get(), ticket, agent, opened));
    return read_ahead(python, std::move(opened));
  };
}

void set_fetch(Handlers& handlers, const PythonVerbs& python) {
  handlers.fetch = [python](const std::string& address, const Ticket& ticket)
      -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.fetch(python.face.get(), address, ticket, opened));
    return read_ahead(python, std::move(opened));
  };
}

}  // namespace fabric
