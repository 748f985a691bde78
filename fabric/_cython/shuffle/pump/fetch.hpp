// DoGet: a stream of record batches into a bounded queue.
//
// One job: read, check, queue. Streams of agents carry headers: order, totals and CRC32C are
// checked (`wire/check.hpp`), and a connection that breaks is tried again, because sealed
// partitions can be read again: what was seen already is dropped by its sequence number. Streams
// of strangers are fully validated instead, and tried once. Room for a message is reserved before
// it is read, in the agent's budget and in the peer's bounds (`Governor`).
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pump/call.hpp"
#include "store/message.hpp"
#include "wire/check.hpp"

namespace fabric {

struct FetchOrder {
  std::string address, ticket;
  Headers headers;
  double idle_s = 30;
  bool events = false;    // hand out events beside rows
  bool gathers = false;  // its reader waits for nobody: it may wait until others are served
  Where where;
  std::string subject;  // "partition 3 of edge 4 from task 1#0: ", for errors
};

class Fetch : public Call, public MessageStream {
 public:
  // With a `check` the peer is an agent.
  Fetch(std::shared_ptr<Connections> pool, FetchOrder order, std::optional<StreamCheck> check);
  ~Fetch() override;

  // Up to `max` messages that are here now; false when there are none.
  bool take_now(size_t max, std::vector<Message>& out);

  // Wait a moment: true when a message is here or the stream is over, false to ask again.
  arrow::Result<bool> wait(Patience& patience);

  std::shared_ptr<arrow::Schema> schema() const override;

  arrow::Result<bool> next(Message& out) override;

  void cancel() override { stop(); }
  void stop() override;

  // How often the stream was begun.
  int tries();

  uint64_t duplicates() const { return check_ ? check_->duplicates() : 0; }  // once over

 private:
  struct Queued {
    Message message;
    int64_t n_bytes;
  };

  arrow::Status serve() override;
  bool begin_request();
  bool reserve();
  bool pause(double seconds);
  arrow::Status read(Stream& stream, bool& cut);
  arrow::Status read_all(Stream& stream, bool& cut);
  void announce(std::shared_ptr<arrow::Schema> schema);
  arrow::Result<bool> check(Message& message);
  arrow::Result<bool> validate(Message& message);
  bool offer(Message message);
  void settle(int64_t n_bytes);
  void give_back(int64_t n_bytes);
  bool full() const;

  const FetchOrder order_;
  std::optional<StreamCheck> check_;
  std::deque<Queued> queue_;
  int64_t queued_bytes_ = 0;
  const std::unique_ptr<Share> share_;  // of the agent's budget, if it has one
  const std::shared_ptr<Governor> governor_;
  int64_t expected_bytes_, reserved_bytes_ = 0;  // of the reading thread
  std::shared_ptr<arrow::Schema> schema_;
  int tries_ = 0;
};

}  // namespace fabric
