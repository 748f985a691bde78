// DoPut: record batches from a bounded queue into a stream, and what the server acknowledges.
//
// One job: queue, sum up, write, wait for the answer. Puts to owners carry headers with checksums
// and end with an END event with the total of rows; an abandoned put is broken off, so that no
// server takes it for a whole one. Batches that were sent go back to the caller to be destroyed:
// those that numpy holds need the GIL for it, which this thread never takes.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "pump/call.hpp"

namespace fabric {

class Outgoing;
struct EdgeHeader;

struct PutOrder {
  std::string address;
  std::vector<std::string> path;
  std::shared_ptr<arrow::Schema> schema;
  Headers headers;
  double idle_s = 30;
  bool edge = false;  // messages carry headers of `job` and `attempt`
  std::string job;
  uint32_t attempt = 0;
  int cpu = 0;
};

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

class PutCall : public Call {
 public:
  PutCall(std::shared_ptr<Connections> pool, PutOrder order);

  // Queue rows; false when there was no room for a moment: ask again. Says what went wrong with
  // these or earlier ones. `spent` is the caller's to drop.
  arrow::Result<bool> write(const std::shared_ptr<arrow::RecordBatch>& batch, uint32_t partition,
                            Patience& patience, Batches& spent);

  // End the stream; false to ask again. `answer` is the server's last acknowledgement.
  arrow::Result<bool> seal(Patience& patience, Batches& spent, std::string& answer);

  // Everything that is left, once the thread has ended.
  void drain(Batches& spent);

  uint64_t rows();

 private:
  struct Queued {
    std::shared_ptr<arrow::RecordBatch> batch;
    uint32_t partition;
    int64_t n_bytes;
  };

  bool full() const;
  arrow::Status serve() override;
  arrow::Status send(Stream& stream);
  bool next(Queued& out);
  arrow::Result<bool> send_rows(Outgoing& outgoing, Queued& item);
  arrow::Result<bool> write_rows(Outgoing& outgoing, const Queued& item);
  arrow::Result<bool> send_end(Outgoing& outgoing);
  EdgeHeader next_header();

  const PutOrder order_;
  uint64_t sequence_ = 0;  // the thread's own
  bool sent_ = false;

  std::deque<Queued> queue_;
  Batches spent_;
  int64_t queued_bytes_ = 0;
  uint64_t rows_ = 0;
  bool sealing_ = false, sealed_ = false;
  std::string answer_;
};

}  // namespace fabric
