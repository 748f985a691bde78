// What is behind the verbs of a Flight server: the door between it and stores, datasets, exchanges.
//
// One job: the contract. The server checks who calls, what the call names and whether the ticket is
// ours; everything below may be called by many threads at once, none of which holds the GIL. A
// status made by `fault` reaches the client as it is, any other as an internal error without text.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace arrow::flight {
class FlightMessageReader;
class FlightMessageWriter;
}  // namespace arrow::flight

namespace fabric {

namespace fl = arrow::flight;

class MessageStream;   // store/message.hpp
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

}  // namespace fabric
