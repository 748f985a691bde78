// From tickets to streams of messages: of one agent or several, of one owner or the next.
#include "flight/gets.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "flight/calls.hpp"
#include "flight/gate.hpp"
#include "flight/handlers.hpp"
#include "flight/directory.hpp"
#include "flight/text.hpp"
#include "store/coalesce.hpp"
#include "store/message.hpp"
#include "store/payload.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {

// Which of several streams is read at the moment: changed by its reader, cancelled from any thread.
class Current {
 public:
  MessageStream* get() const { return stream_.get(); }

  void set(std::unique_ptr<MessageStream> stream) {
    {
      const std::lock_guard lock(mutex_);
      std::swap(stream_, stream);
      if (cancelled_ && stream_ != nullptr) stream_->cancel();
    }
  }  // the one before ends here, outside the lock

  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (stream_ != nullptr) stream_->cancel();
  }

  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  mutable std::mutex mutex_;  // of `stream_` against `cancel`
  std::unique_ptr<MessageStream> stream_;
  bool cancelled_ = false;
};

namespace {

// Several streams one after the other, each opened when the one before it is over.
class Chain : public MessageStream {
 public:
  using Open = std::function<arrow::Result<std::unique_ptr<MessageStream>>()>;

  Chain(std::shared_ptr<arrow::Schema> schema, std::vector<Open> parts)
      : schema_(std::move(schema)), parts_(std::move(parts)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    for (; at_ < parts_.size(); ++at_) {
      if (current_.get() == nullptr) {
        ARROW_ASSIGN_OR_RAISE(std::unique_ptr<MessageStream> opened, parts_[at_]());
        current_.set(std::move(opened));
      }
      ARROW_ASSIGN_OR_RAISE(const bool more, current_.get()->next(out));
      if (more) return true;
      current_.set(nullptr);
    }
    return false;
  }

  void cancel() override { current_.cancel(); }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Open> parts_;
  size_t at_ = 0;
  Current current_;
};

arrow::Result<std::string> agent_of(const EdgeLocation& location, const PartitionTicket& ticket,
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

}  // namespace

// A partition of a dataset that several other agents own, read from the first owner that can give
// it. Whoever can't before its first row is passed over, and that is told; after the first row an
// error ends the stream, as it would do with one owner: the reader asks again.
class Replicas {
 public:
  using Stream = std::unique_ptr<MessageStream>;

  Replicas(DatasetTicket ticket, std::shared_ptr<const Handlers> handlers, const Asking& ask)
      : ticket_(std::move(ticket)), handlers_(std::move(handlers)), ask_(ask) {}

  void add(const std::string& owner, const std::string& address) {
    places_.emplace_back(owner, address);
  }
  bool empty() const { return places_.empty(); }

  // `owner` could not give it.
  void passed_over(const std::string& owner, const arrow::Status& status) const {
    if (ask_.passed_over == nullptr) return;
    const std::string& text = status.message();  // gRPC adds what only it understands
    ask_.passed_over(ask_.face.get(), ticket_.name, ticket_.partition, owner,
                     text.substr(0, text.find(". Detail: ")));
  }

  // The rows; there is at least one place.
  arrow::Result<Stream> open() &&;

 private:
  friend class ReplicaStream;

  arrow::Result<Stream> fetch(size_t place) const {
    return handlers_->fetch(places_[place].second, ticket_);
  }

  DatasetTicket ticket_;
  std::shared_ptr<const Handlers> handlers_;
  Asking ask_;
  std::vector<std::pair<std::string, std::string>> places_;  // owner, address
};

class ReplicaStream final : public MessageStream {
 public:
  explicit ReplicaStream(Replicas replicas) : replicas_(std::move(replicas)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return nullptr; }  // as of any owner

  arrow::Result<bool> next(Message& out) override {
    while (true) {
      arrow::Result<bool> more = asked(out);
      if (!more.ok() && !begun_ && at_ + 1 < replicas_.places_.size() && !current_.cancelled()) {
        replicas_.passed_over(replicas_.places_[at_].first, more.status());
        current_.set(nullptr);
        ++at_;
        continue;
      }
      begun_ = true;
      return more;
    }
  }

  void cancel() override { current_.cancel(); }

 private:
  arrow::Result<bool> asked(Message& out) {
    if (current_.get() == nullptr) {
      ARROW_ASSIGN_OR_RAISE(Replicas::Stream opened, replicas_.fetch(at_));
      current_.set(std::move(opened));
    }
    return current_.get()->next(out);
  }

  Replicas replicas_;
  size_t at_ = 0;
  bool begun_ = false;
  Current current_;
};

// One place alone is asked at once, so that the schema of its rows is known.
arrow::Result<Replicas::Stream> Replicas::open() && {
  if (places_.size() == 1) return fetch(0);
  return std::make_unique<ReplicaStream>(std::move(*this));
}

arrow::Result<Gets::Stream> Gets::open(const Ticket& ticket, bool agent) const {
  if (is_tap(ticket)) return tap(std::get<PartitionTicket>(ticket), agent);
  if (agent) return handlers_->get(ticket, true);
  if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) return edge(*partition);
  return dataset(std::get<DatasetTicket>(ticket));
}

arrow::Result<std::shared_ptr<arrow::Schema>> Gets::schema(const MessageStream& stream,
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

// Opened at once, so that it sees whatever comes after the answer. All its producers are on one
// agent.
arrow::Result<Gets::Stream> Gets::tap(const PartitionTicket& ticket, bool agent) const {
  ARROW_ASSIGN_OR_RAISE(const EdgePtr location,
                        finder_.edge_numbered(ticket.job, ticket.edge, ticket.producers));
  if (agent) return handlers_->get(ticket, true);
  if (ticket.producers.empty()) return fault("AuthError", "the ticket names no producer");
  ARROW_ASSIGN_OR_RAISE(const std::string at,
                        agent_of(*location, ticket, ticket.producers.front()));
  return part(at, ticket);
}

arrow::Result<Gets::Stream> Gets::edge(const PartitionTicket& ticket) const {
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

arrow::Result<Gets::Stream> Gets::part(const std::string& agent,
                                       const PartitionTicket& ticket) const {
  if (agent == agent_id_) return handlers_->get(ticket, false);
  const std::string what = "partition " + std::to_string(ticket.partition);
  ARROW_ASSIGN_OR_RAISE(const std::string address, finder_.address(agent, what));
  return handlers_->fetch(address, ticket);
}

// What lies here is checked before the first row; where it is damaged another owner is asked.
arrow::Result<Gets::Stream> Gets::dataset(const DatasetTicket& ticket) const {
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
Replicas Gets::reachable(const DatasetTicket& ticket, std::span<const std::string> owners) const {
  Replicas found(ticket, handlers_, finder_.asking());
  for (const std::string& owner : owners) {
    const std::string address = owner == agent_id_ ? "" : finder_.table().address(owner);
    if (!address.empty()) found.add(owner, address);
  }
  return found;
}

namespace {

class GetStream final : public fl::FlightDataStream {
 public:
  GetStream(const Asking& ask, std::unique_ptr<MessageStream> messages,
            std::shared_ptr<arrow::Schema> schema, bool agent, bool tap,
            std::shared_ptr<Inside> inside, std::shared_ptr<Watch> watch,
            const fl::ServerCallContext& context)
      : ask_(ask), messages_(std::move(messages)), schema_(std::move(schema)), agent_(agent),
        tap_(tap), inside_(std::move(inside)), context_(context), awaited_(awaited_of(context)),
        writer_(schema_),
        watched_(std::move(watch), {[this] { return stopped() || messages_->overdue(); },
                                    [this] { messages_->cancel(); }}) {}

  std::shared_ptr<arrow::Schema> schema() override { return schema_; }

  arrow::Result<fl::FlightPayload> GetSchemaPayload() override {
    const OurTurn turn(awaited_);
    auto payload = writer_.schema();
    return payload.ok() ? std::move(payload) : ask_.outward(payload.status());
  }

  arrow::Result<fl::FlightPayload> Next() override {
    const OurTurn turn(awaited_);
    while (out_.empty()) {
      const arrow::Result<bool> more = agent_ ? fill() : fill_plain();
      if (!more.ok()) return ask_.outward(because(more.status()));
      if (!*more) return fl::FlightPayload();  // without metadata: the end
    }
    return take();
  }

 private:
  bool stopped() const { return context_.is_cancelled() || inside_->closed(); }

  // A stream that was cancelled fails for the reason it was cancelled for.
  arrow::Status because(const arrow::Status& status) const {
    if (inside_->closed()) {
      return fault("PeerLostError", "this agent is shutting down; ask another one");
    }
    return context_.is_cancelled() ? fault("PeerLostError", "the client went away") : status;
  }

  fl::FlightPayload take() {
    fl::FlightPayload payload = std::move(out_.front());
    out_.pop_front();
    return payload;
  }

  arrow::Result<bool> next(Message& message) {
    if (stopped()) return fault("PeerLostError", "nobody waits for this stream any more");
    ARROW_ASSIGN_OR_RAISE(const bool more, messages_->next(message));
    if (more && message.batch == nullptr && message.payload == nullptr) {
      ARROW_ASSIGN_OR_RAISE(message.batch, empty_rows(schema_));
    }
    return more;
  }

  arrow::Result<bool> fill() {
    Message message;
    ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
    if (more) ARROW_RETURN_NOT_OK(writer_.add(message, out_));
    return more;
  }

  // Rows only, and never quite nothing: readers fail on dictionaries that no batch brought. What a
  // tap says of its rows goes with each of them, and also without any.
  arrow::Result<bool> fill_plain() {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(BatchPtr piece, pieces_.next());
      if (piece != nullptr) return add_plain(std::move(piece));
      Message message;
      ARROW_ASSIGN_OR_RAISE(const bool more, next(message));
      if (more && tap_) said_ = std::move(message.header);
      if (more && tap_ && message.batch->num_rows() == 0) return add_plain(message.batch);
      if (more && message.batch->num_rows() > 0) pieces_.put(std::move(message.batch));
      if (more) continue;
      if (sent_) return false;
      ARROW_ASSIGN_OR_RAISE(BatchPtr none, empty_rows(schema_));
      return add_plain(std::move(none));
    }
  }

  arrow::Result<bool> add_plain(BatchPtr batch) {
    sent_ = true;
    ARROW_RETURN_NOT_OK(writer_.add({said_, std::move(batch)}, out_));
    return true;
  }

  Asking ask_;
  std::unique_ptr<MessageStream> messages_;
  std::shared_ptr<arrow::Schema> schema_;
  bool agent_, tap_;
  std::string said_;  // by a tap
  std::shared_ptr<Inside> inside_;
  const fl::ServerCallContext& context_;
  Awaited* const awaited_;
  std::deque<fl::FlightPayload> out_;
  PayloadWriter writer_;
  Pieces pieces_;
  bool sent_ = false;
  Watched watched_;  // last: it uses all of the above from another thread
};

}  // namespace

std::unique_ptr<fl::FlightDataStream> get_stream(
    const Asking& ask, std::unique_ptr<MessageStream> messages,
    std::shared_ptr<arrow::Schema> schema, bool agent, bool tap, std::shared_ptr<Inside> inside,
    std::shared_ptr<Watch> watch, const fl::ServerCallContext& context) {
  return std::make_unique<GetStream>(ask, std::move(messages), std::move(schema), agent, tap,
                                     std::move(inside), std::move(watch), context);
}

}  // namespace fabric
