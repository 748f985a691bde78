// Where the rows of a ticket come from: the store of this agent, or a fetch from another one.
#include "flight/partitions.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "flight/handlers.hpp"
#include "pump/fetch.hpp"
#include "store/message.hpp"
#include "store/store.hpp"
#include "wire/check.hpp"
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

}  // namespace fabric
