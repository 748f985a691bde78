// The Flight server of an agent: every verb, for agents and for any other client, without Python.
//
// One job: what a server is made of, and how it begins and ends.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "flight/asking.hpp"
#include "flight/calls.hpp"
#include "grpc/abi.hpp"
#include "flight/listing.hpp"

namespace fabric {

class Directory;
class StreamDoor;
struct Handlers;

struct ServerConfig {
  Asking ask;
  std::shared_ptr<Directory> table;
  std::shared_ptr<const Handlers> handlers;
  std::shared_ptr<StreamDoor> streams;  // may be null
  std::string agent_id, location;
  std::string ticket_key;  // of the fabric, for tickets alone
  double ticket_s = 3600;
  Limits limits;
  std::string tls_certificate, tls_key;  // PEM; empty: plain text
  View view;                             // of clients that do not say
  std::vector<std::string> actions;      // of Flight's own, those offered; empty: all
  std::vector<std::string> echoed;       // headers that come back with the answer
};

// Serves from `start` on.
class Server {
 public:
  virtual ~Server() = default;

  static arrow::Result<std::shared_ptr<Server>> start(const ServerConfig& config);

  // From now on the same tokens and tickets also open the Unix socket at `path`. Once.
  virtual arrow::Status listen(const std::string& path) = 0;

  // Break off what is open, and wait until no handler runs.
  virtual void end() = 0;

  virtual Inside& inside() = 0;
  virtual int port() const = 0;
};

// Refuse new calls, let open ones end for `grace_s`, then break them off; whether all ended. A
// handler that sits in a wait of Python's keeps the server alive in a thread of its own, at most
// until that wait is over; so `stop` is bounded whatever clients and handlers do.
bool stop_server(std::shared_ptr<Server> server, double grace_s);

}  // namespace fabric
