// Streams and puts that Python brings: its `PartitionSource`, `DatasetStore`, `Transport`.
//
// One job: the handlers of a server over functions that take the GIL (adapters.pyx). What comes
// from Python may sit in a wait, so it is read ahead by a thread of its own.
#pragma once
#include "flight/ahead.hpp"
#include "flight/asking.hpp"
#include "flight/handlers.hpp"

namespace fabric {

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

// What Python opened: its schema, or null, and its messages.
struct Opened {
  std::shared_ptr<arrow::Schema> schema;
  PyRef items;
};

struct PythonVerbs {
  PyRef face;  // fabric.flight.adapted.Adapted
  PythonStream::Step step;
  arrow::Status (*get)(PyObject*, const Ticket&, bool agent, Opened&);
  arrow::Status (*fetch)(PyObject*, const std::string& address, const Ticket&, Opened&);
};

inline std::unique_ptr<MessageStream> read_ahead(const PythonVerbs& python, Opened opened) {
  return std::make_unique<Ahead>(std::make_unique<PythonStream>(
      std::move(opened.schema), std::move(opened.items), python.step));
}

inline void set_get(Handlers& handlers, const PythonVerbs& python) {
  handlers.get = [python](const Ticket& ticket,
                          bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.get(python.face.get(), ticket, agent, opened));
    return read_ahead(python, std::move(opened));
  };
}

inline void set_fetch(Handlers& handlers, const PythonVerbs& python) {
  handlers.fetch = [python](const std::string& address, const Ticket& ticket)
      -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.fetch(python.face.get(), address, ticket, opened));
    return read_ahead(python, std::move(opened));
  };
}

}  // namespace fabric
