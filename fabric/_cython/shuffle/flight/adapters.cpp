// Python's iterators as streams of messages: see `adapters.hpp`.
//
// One job: ask Python for a stream, and read it ahead.
#include "flight/adapters.hpp"

#include "flight/ahead.hpp"
#include "flight/handlers.hpp"
#include "store/message.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

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

std::unique_ptr<MessageStream> read_ahead(const PythonVerbs& python, Opened opened) {
  return std::make_unique<Ahead>(std::make_unique<PythonStream>(
      std::move(opened.schema), std::move(opened.items), python.step));
}

}  // namespace

void set_get(Handlers& handlers, const PythonVerbs& python) {
  handlers.get = [python](const Ticket& ticket,
                          bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.get(python.face.get(), ticket, agent, opened));
    return read_ahead(python, std::move(opened));
  };
}

void set_fetch(Handlers& handlers, const PythonVerbs& python) {
  handlers.fetch = [python](const std::string& address, const Ticket& ticket)
      -> arrow::Result<std::unique_ptr<MessageStream>> {
    Opened opened;
    ARROW_RETURN_NOT_OK(python.fetch(python.face.get(), address, ticket, opened));
    return read_ahead(python, std::move(opened));
  };
}

}  // namespace fabric
