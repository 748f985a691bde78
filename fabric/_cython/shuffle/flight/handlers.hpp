// What is behind the verbs of a Flight server: the door between it and stores, datasets, exchanges.
//
// One job: the contract, and whose rows DoGet gives: those of the store of this agent, of other
// agents, and of Python (handlers.pyx defines its functions, which take the GIL). The server checks
// who calls, what the call names and whether the ticket is ours; everything below may be called by
// many threads at once, none of which holds the GIL. A status made by `fault` reaches the client as
// it is, any other as an internal error without text.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "wire/python.hpp"

namespace arrow::flight {
class FlightMessageReader;
class FlightMessageWriter;
}  // namespace arrow::flight

namespace fabric {

namespace fl = arrow::flight;

class Connections;
struct Message;
class MessageStream;   // store/message.hpp
class Store;
struct DatasetTicket;  // wire/ticket.hpp
struct ExchangePath;   // flight/paths.hpp
struct PartitionTicket;
struct PutPath;
using Ticket = std::variant<PartitionTicket, DatasetTicket>;

// Whether the client went away or the server stops; long waits ask it at least twice a second.
using Cancelled = std::function<bool()>;

struct Handlers {
  // The rows of a ticket that lie here, an `agent` gets headers and END events (dataset partitions
  // too: job is the dataset's name, edge and producer 0), anybody else may get them too: the server
  // strips them and cuts batches to size.
  std::function<arrow::Result<std::unique_ptr<MessageStream>>(const Ticket&, bool agent)> get;
  // Whether the partition of a dataset that a ticket names was sealed here by all its parts.
  std::function<bool(const DatasetTicket&)> has;
  // Rows that lie with the agent at `address`, checked; headers may be missing.
  std::function<arrow::Result<std::unique_ptr<MessageStream>>(const std::string& address,
                                                              const Ticket&)> fetch;
  // Takes the whole stream and acknowledges it by one metadata message.
  std::function<arrow::Status(const PutPath&, bool agent, fl::FlightMessageReader&,
                              fl::FlightMetadataWriter&, const Cancelled&)> put;
  std::function<arrow::Status(const ExchangePath&, bool agent, fl::FlightMessageReader&,
                              fl::FlightMessageWriter&, const Cancelled&)> exchange;
};

// Tickets of edges to the store of this agent, without Python; others go where they went before.
void set_store(Handlers& handlers, std::shared_ptr<const Store> store);

struct Passing {
  std::shared_ptr<Connections> pool;
  std::string ticket_key;
  double idle_s = 30;
  int cpu = 0;
  PyRef transport;
  arrow::Status (*token)(PyObject*, std::string& out) = nullptr;
};

// Rows that lie with another agent, on their way to a foreign client, by the native pump: with
// tickets of our own, and the token of the agent is asked of Python once in a while. Addresses that
// are no sockets go where they went before.
void set_passing(Handlers& handlers, const Passing& passing);

// What Python opened: its schema, or null, and its messages.
struct Opened {
  std::shared_ptr<arrow::Schema> schema;
  PyRef items;
};

// Streams that Python brings: its `PartitionSource`, `DatasetStore`, `Transport`. What comes from
// Python may sit in a wait, so it is read ahead by a thread of its own.
struct PythonVerbs {
  PyRef face;  // fabric.flight.handlers.Adapted
  // The next of an iterator over (header or None, batch).
  arrow::Status (*step)(PyObject* items, Message& out, bool& more);
  arrow::Status (*get)(PyObject*, const Ticket&, bool agent, Opened&);
  arrow::Status (*fetch)(PyObject*, const std::string& address, const Ticket&, Opened&);
};

void set_get(Handlers& handlers, const PythonVerbs& python);
void set_fetch(Handlers& handlers, const PythonVerbs& python);

}  // namespace fabric
