// DoGet: which rows a ticket names, and where they are.
//
// One job: from a verified ticket to one stream of messages. An agent asks for what lies here;
// anybody else also for what lies with other agents, which is passed on.
#pragma once
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>

#include "flight/finder.hpp"
#include "flight/handlers.hpp"
#include "flight/replicas.hpp"

namespace fabric {

inline arrow::Result<std::shared_ptr<arrow::Schema>> read_schema(const std::string& bytes) {
  arrow::io::BufferReader in(std::make_shared<arrow::Buffer>(bytes));
  arrow::ipc::DictionaryMemo memo;
  return arrow::ipc::ReadSchema(&in, &memo);
}

// Several streams one after the other, each opened when the one before it is over.
class Chain : public MessageStream {
 public:
  using Open = std::function<arrow::Result<std::unique_ptr<MessageStream>>()>;

  Chain(std::shared_ptr<arrow::Schema> schema, std::vector<Open> parts)
      : schema_(std::move(schema)), parts_(std::move(parts)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    for (; at_ < parts_.size(); ++at_) {
      if (current_ == nullptr) {
        ARROW_ASSIGN_OR_RAISE(std::unique_ptr<MessageStream> opened, parts_[at_]());
        set(std::move(opened));
      }
      ARROW_ASSIGN_OR_RAISE(const bool more, current_->next(out));
      if (more) return true;
      set(nullptr);
    }
    return false;
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (current_ != nullptr) current_->cancel();
  }

 private:
  void set(std::unique_ptr<MessageStream> stream) {
    {
      std::lock_guard lock(mutex_);
      std::swap(current_, stream);
      if (cancelled_ && current_ != nullptr) current_->cancel();
    }
  }  // the one before ends here, outside the lock

  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Open> parts_;
  size_t at_ = 0;
  std::mutex mutex_;  // of `current_` against `cancel`
  std::unique_ptr<MessageStream> current_;
  bool cancelled_ = false;
};

class Gets {
 public:
  using Stream = std::unique_ptr<MessageStream>;

  Gets(std::string agent_id, const Finder& finder, std::shared_ptr<const Handlers> handlers)
      : agent_id_(std::move(agent_id)), finder_(finder), handlers_(std::move(handlers)) {}

  arrow::Result<Stream> open(const Ticket& ticket, bool agent) const {
    if (is_tap(ticket)) return tap(std::get<PartitionTicket>(ticket), agent);
    if (agent) return handlers_->get(ticket, true);
    if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) return edge(*partition);
    return dataset(std::get<DatasetTicket>(ticket));
  }

  // What the messages of a stream hold: said by the stream, or by the location when rows are only
  // passed on, or lie nowhere.
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const MessageStream& stream,
                                                       const Ticket& ticket) const {
    if (auto known = stream.schema(); known != nullptr) return known;
    if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr edge, finder_.edge_numbered(
                                                    partition->job, partition->edge,
                                                    partition->producers));
      return read_schema(edge->schema);
    }
    const auto* dataset = std::get_if<DatasetTicket>(&ticket);
    ARROW_ASSIGN_OR_RAISE(const DatasetPtr found, finder_.dataset(dataset->name));
    return read_schema(found->schema);
  }

 private:
  // Opened at once, so that it sees whatever comes after the answer. All its producers are on one
  // agent.
  arrow::Result<Stream> tap(const PartitionTicket& ticket, bool agent) const {
    ARROW_ASSIGN_OR_RAISE(const EdgePtr location,
                          finder_.edge_numbered(ticket.job, ticket.edge, ticket.producers));
    if (agent) return handlers_->get(ticket, true);
    if (ticket.producers.empty()) return fault("AuthError", "the ticket names no producer");
    ARROW_ASSIGN_OR_RAISE(const std::string at,
                          agent_of(*location, ticket, ticket.producers.front()));
    return part(at, ticket);
  }

  arrow::Result<Stream> edge(const PartitionTicket& ticket) const {
    ARROW_ASSIGN_OR_RAISE(const EdgePtr location,
                          finder_.edge_numbered(ticket.job, ticket.edge, ticket.producers));
    std::vector<std::pair<std::string, PartitionTicket>> by_agent;
    for (const ProducerAttempt& producer : ticket.producers) {
      ARROW_ASSIGN_OR_RAISE(const std::string agent, agent_of(*location, ticket, producer));
      auto of = std::ranges::find(by_agent, agent, [](const auto& part) { return part.first; });
      if (of == by_agent.end()) {
        PartitionTicket narrow = ticket;
        narrow.producers.clear();
        of = by_agent.insert(of, {agent, std::move(narrow)});
      }
      of->second.producers.push_back(producer);
    }
    std::vector<Chain::Open> parts;
    for (auto& [agent, narrow] : by_agent) {
      parts.push_back([this, agent, narrow] { return part(agent, narrow); });
    }
    ARROW_ASSIGN_OR_RAISE(auto schema, read_schema(location->schema));
    return std::make_unique<Chain>(std::move(schema), std::move(parts));
  }

  static arrow::Result<std::string> agent_of(const EdgeLocation& location,
                                             const PartitionTicket& ticket,
                                             const ProducerAttempt& producer) {
    for (const ProducerPlace& place : location.producers) {
      if (place.task == producer.task && place.attempt == producer.attempt) return place.agent;
    }
    return fault("PartitionLostError",
                 "what task " + std::to_string(producer.task) + " attempt " +
                     std::to_string(producer.attempt) +
                     " wrote is gone; ask get_flight_info again",
                 {.job = ticket.job, .node = ticket.node_path});
  }

  arrow::Result<Stream> part(const std::string& agent, const PartitionTicket& ticket) const {
    if (agent == agent_id_) return handlers_->get(ticket, false);
    const std::string what = "partition " + std::to_string(ticket.partition);
    ARROW_ASSIGN_OR_RAISE(const std::string address, finder_.address(agent, what));
    return handlers_->fetch(address, ticket);
  }

  // What lies here is checked before the first row; where it is damaged another owner is asked.
  arrow::Result<Stream> dataset(const DatasetTicket& ticket) const {
    const bool here = handlers_->has(ticket);
    arrow::Result<Stream> found = arrow::Status::Cancelled("nobody was asked");
    if (here) found = handlers_->get(ticket, false);
    if (found.ok()) return found;
    const arrow::Result<DatasetPtr> location = finder_.dataset(ticket.name);
    if (!location.ok()) return here ? found.status() : location.status();
    if (!(*location)->whole() || ticket.partition >= (*location)->n_partitions) {
      return here ? found.status()
                  : fault("PartitionLostError", "dataset " + quoted(ticket.name) +
                                                    " was replaced; ask get_flight_info again");
    }
    const auto owners = (*location)->owners_of(ticket.partition);
    Replicas others = reachable(ticket, owners);
    if (here && !others.empty()) others.passed_over(agent_id_, found.status());
    if (!others.empty()) return std::move(others).open();
    if (here) return found;
    if ((*location)->owns(agent_id_, ticket.partition)) return handlers_->get(ticket, false);
    const std::string what = "partition " + std::to_string(ticket.partition) + " of dataset " +
                             quoted(ticket.name);
    const auto owner = std::ranges::find_if(owners, [](const auto& id) { return !id.empty(); });
    if (owner == owners.end()) return fault("PartitionLostError", what + " has no owner");
    return finder_.address(*owner, what).status();
  }

  // The owners on other agents that are connected.
  Replicas reachable(const DatasetTicket& ticket, std::span<const std::string> owners) const {
    Replicas found(ticket, handlers_, finder_.asking());
    for (const std::string& owner : owners) {
      const std::string address = owner == agent_id_ ? "" : finder_.table().address(owner);
      if (!address.empty()) found.add(owner, address);
    }
    return found;
  }

  std::string agent_id_;
  Finder finder_;
  std::shared_ptr<const Handlers> handlers_;
};

}  // namespace fabric
