// A pipelined edge on its consumers' agent: what producers elsewhere send into rings of some
// partitions.
//
// One job: open an exchange, with another agent by one DoExchange or with one of this process from
// ring to ring. An error cancels the job's pipes, which wakes its tasks.
#pragma once
#include <arrow/status.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exchange/request.hpp"

namespace fabric {

class BatchPipes;
class Connections;
class JobPipes;

constexpr uint64_t WINDOW_BYTES = 8 << 20;  // that one partition may have on its way and unread

struct ExpectedProducer {
  uint32_t task, attempt, partition;
};

struct ExchangeOrder {
  std::string address;
  ExchangeRequest request;
  std::vector<ExpectedProducer> expected;
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::pair<std::string, std::string>> headers;
  double idle_s = 30;
  Where where;
  uint64_t window_bytes = WINDOW_BYTES;
  int cpu = 0;
};

// An exchange as whoever opened it sees it.
class OpenExchange {
 public:
  virtual ~OpenExchange() = default;
  // Cut it, wherever it is, and wait for its threads; not from several threads at once.
  virtual void close() = 0;
  // What it ended with; fine while it runs and when it was stopped.
  virtual arrow::Status failure() = 0;
  virtual uint64_t rows() const = 0;  // that came so far
};

// Both have begun.
std::shared_ptr<OpenExchange> open_exchange(std::shared_ptr<Connections> pool,
                                            std::shared_ptr<BatchPipes> pipes,
                                            ExchangeOrder order);
std::shared_ptr<OpenExchange> open_local_exchange(std::shared_ptr<JobPipes> from,
                                                  std::shared_ptr<BatchPipes> to,
                                                  ExchangeRequest request, double idle_s);

}  // namespace fabric
