// The partitions behind DoGet: those of a native store, and those of other agents.
//
// One job: handlers that move rows without Python. Tickets of edges go to the store; what lies with
// another agent comes by the native pump, with tickets of our own, and the token of the agent is
// asked of Python once in a while. Other tickets, and addresses that are no sockets, go where they
// went before.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "wire/py_ref.hpp"

namespace fabric {

class Connections;
struct Handlers;
class Store;

void set_store(Handlers& handlers, std::shared_ptr<const Store> store);

struct Passing {
  std::shared_ptr<Connections> pool;
  std::string ticket_key;
  double idle_s = 30;
  int cpu = 0;
  PyRef transport;
  arrow::Status (*token)(PyObject*, std::string& out) = nullptr;
};

// Rows that lie with another agent, on their way to a foreign client.
void set_passing(Handlers& handlers, const Passing& passing);

}  // namespace fabric
