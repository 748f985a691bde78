// What the two ends of an exchange agree on: which partitions, and how much of each may be unread.
//
// One job: the request, and the accounts of its credit, by one charge. What is asked for rides in a
// descriptor's path, which is ["exchange", job, node path, edge, partitions of the edge, codec,
// then for each wanted: partition, how many producers of it are there, …].
#pragma once
#include <arrow/result.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "wire/fault.hpp"

namespace fabric {

struct Credit;
struct ExchangePath;

struct WantedPartition {
  uint32_t partition, n_producers;
};

struct ExchangeRequest {
  std::string job, node_path;
  uint32_t edge = 0, n_partitions = 0;
  std::string compression;  // of rows on their way: one of CODECS
  std::vector<WantedPartition> wanted;

  Where where() const { return {.job = job, .node = node_path}; }
};

std::vector<std::string> request_path(const ExchangeRequest& request);
arrow::Result<ExchangeRequest> request_of(const ExchangePath& path);

// What a batch costs: its bytes, and a little for its slot, so that small ones are bounded too.
constexpr uint64_t SLOT_BYTES = 1 << 10;
inline uint64_t charge_of(uint64_t bytes, uint64_t n_batches = 1) {
  return bytes + SLOT_BYTES * n_batches;
}

// Credits as the producers' side sees them: pure accounting in bytes for each partition. Rows of
// one may be sent while its credit is positive, so one message may overdraw by itself; events cost
// nothing. Not thread-safe: the owner holds a lock.
class Ledger {
 public:
  explicit Ledger(const std::vector<WantedPartition>& wanted);

  arrow::Status apply(const Credit& credit);

  bool may_send(uint32_t partition) const { return accounts_.at(partition).bytes > 0; }
  bool closed(uint32_t partition) const { return accounts_.at(partition).closed; }
  int64_t silent_until(uint32_t partition) const { return accounts_.at(partition).silent_until; }
  void spend(uint32_t partition, uint64_t bytes) {
    accounts_.at(partition).bytes -= static_cast<int64_t>(bytes);
  }

 private:
  struct Account {
    int64_t bytes = 0;
    bool closed = false;
    int64_t silent_until = INT64_MIN;
  };

  arrow::Result<Account*> account(uint32_t partition);

  std::map<uint32_t, Account> accounts_;
};

// What may be on its way and unread of one partition: the consumer's half of the accounting that
// `Ledger` does for the producer, not thread-safe either. It grants what fits beside what is on its
// way and what waits unread; small grants wait until they make up half a window.
class Window {
 public:
  explicit Window(uint64_t bytes) : bytes_(bytes) {}

  void received(uint64_t bytes) { granted_ -= static_cast<int64_t>(bytes); }

  // What to grant now that `waiting` bytes lie unread, of a window that is as narrow as `bytes_max`
  // for now; 0: nothing yet.
  uint64_t due(uint64_t waiting, uint64_t bytes_max) {
    const auto bytes = static_cast<int64_t>(std::min(bytes_, bytes_max));
    const int64_t room = bytes - granted_ - static_cast<int64_t>(waiting);
    if (room <= 0 || 2 * room < bytes) return 0;
    granted_ += room;
    return static_cast<uint64_t>(room);
  }

  // Room from which on it grants.
  uint64_t step(uint64_t bytes_max) const { return std::min(bytes_, bytes_max) / 2; }

 private:
  uint64_t bytes_;
  int64_t granted_ = 0;  // and not received; below 0 when a message overdrew
};

}  // namespace fabric
