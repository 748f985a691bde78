// DoGet: which rows a ticket names, where they are, and how they go out.
//
// One job: from a verified ticket to one stream of messages, and from that to Flight payloads, for
// agents with headers, for anybody else as plain batches of at most 4 MiB. An agent asks for what
// lies here; anybody else also for what lies with other agents, which is passed on.
#pragma once
#include <arrow/flight/server.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "flight/directory.hpp"

namespace fabric {

struct DatasetTicket;
struct Handlers;
class Inside;
class MessageStream;
struct PartitionTicket;
class Replicas;
using Ticket = std::variant<PartitionTicket, DatasetTicket>;
class Watch;

class Gets {
 public:
  using Stream = std::unique_ptr<MessageStream>;

  Gets(std::string agent_id, const Finder& finder, std::shared_ptr<const Handlers> handlers)
      : agent_id_(std::move(agent_id)), finder_(finder), handlers_(std::move(handlers)) {}

  arrow::Result<Stream> open(const Ticket& ticket, bool agent) const;

  // What the messages of a stream hold: said by the stream, or by the location when rows are only
  // passed on, or lie nowhere.
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const MessageStream& stream,
                                                       const Ticket& ticket) const;

 private:
  arrow::Result<Stream> tap(const PartitionTicket& ticket, bool agent) const;
  arrow::Result<Stream> edge(const PartitionTicket& ticket) const;
  arrow::Result<Stream> part(const std::string& agent, const PartitionTicket& ticket) const;
  arrow::Result<Stream> dataset(const DatasetTicket& ticket) const;
  Replicas reachable(const DatasetTicket& ticket, std::span<const std::string> owners) const;

  std::string agent_id_;
  Finder finder_;
  std::shared_ptr<const Handlers> handlers_;
};

// A stream of messages as Flight payloads. Dictionaries go as IPC dictionary messages, again when
// they change. A client that went away ends the stream within a second, also while it waits.
std::unique_ptr<fl::FlightDataStream> get_stream(
    const Asking& ask, std::unique_ptr<MessageStream> messages,
    std::shared_ptr<arrow::Schema> schema, bool agent, bool tap, std::shared_ptr<Inside> inside,
    std::shared_ptr<Watch> watch, const fl::ServerCallContext& context);

}  // namespace fabric
