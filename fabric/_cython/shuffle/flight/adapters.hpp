// Streams and puts that Python brings: its `PartitionSource`, `DatasetStore`, `Transport`.
//
// One job: the handlers of a server over functions that take the GIL (adapters.pyx). What comes
// from Python may sit in a wait, so it is read ahead by a thread of its own.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <variant>

#include "wire/py_ref.hpp"

namespace fabric {

struct DatasetTicket;
struct Handlers;
struct Message;
struct PartitionTicket;
using Ticket = std::variant<PartitionTicket, DatasetTicket>;

// What Python opened: its schema, or null, and its messages.
struct Opened {
  std::shared_ptr<arrow::Schema> schema;
  PyRef items;
};

struct PythonVerbs {
  PyRef face;  // fabric.flight.adapted.Adapted
  // The next of an iterator over (header or None, batch).
  arrow::Status (*step)(PyObject* items, Message& out, bool& more);
  arrow::Status (*get)(PyObject*, const Ticket&, bool agent, Opened&);
  arrow::Status (*fetch)(PyObject*, const std::string& address, const Ticket&, Opened&);
};

void set_get(Handlers& handlers, const PythonVerbs& python);
void set_fetch(Handlers& handlers, const PythonVerbs& python);

}  // namespace fabric
