// Credits of a pipelined edge, seen from both ends (design 4.2).
//
// One job: pure accounting in bytes for each partition. The producer's side may send rows of a
// partition while its credit is positive, so one message may overdraw by itself; the consumer's
// side grants what fits into its window beside what is on its way and what waits unread. Events
// cost nothing. Not thread-safe: the owner holds a lock.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "wire/credit.hpp"

namespace fabric {

// What a batch costs: its bytes, and a little for its slot, so that small ones are bounded too.
constexpr uint64_t SLOT_BYTES = 1 << 10;
inline uint64_t charge_of(uint64_t bytes, uint64_t n_batches = 1) {
  return bytes + SLOT_BYTES * n_batches;
}

// The producer's side.
class Ledger {
 public:
  explicit Ledger(const std::vector<uint32_t>& partitions) {
    for (const uint32_t partition : partitions) accounts_[partition];
  }

  arrow::Status apply(const Credit& credit) {
    for (const PartitionCredit& grant : credit.grants) {
      const auto found = accounts_.find(grant.partition);
      if (found == accounts_.end()) return unknown(grant.partition);
      if (grant.bytes > GRANT_BYTES_MAX) {
        return fault("DataError",
                     "a credit of " + std::to_string(grant.bytes) + " bytes is absurd");
      }
      found->second.bytes += static_cast<int64_t>(grant.bytes);
    }
    for (const uint32_t partition : credit.closed) {
      const auto found = accounts_.find(partition);
      if (found == accounts_.end()) return unknown(partition);
      found->second.closed = true;
    }
    return arrow::Status::OK();
  }

  bool may_send(uint32_t partition) const { return accounts_.at(partition).bytes > 0; }
  bool closed(uint32_t partition) const { return accounts_.at(partition).closed; }
  void spend(uint32_t partition, uint64_t bytes) {
    accounts_.at(partition).bytes -= static_cast<int64_t>(bytes);
  }

 private:
  static constexpr uint64_t GRANT_BYTES_MAX = uint64_t{1} << 40;
  struct Account {
    int64_t bytes = 0;
    bool closed = false;
  };
  static arrow::Status unknown(uint32_t partition) {
    return fault("DataError", "a credit names partition " + std::to_string(partition) +
                                  ", which is not of this exchange");
  }
  std::map<uint32_t, Account> accounts_;
};

// The consumer's side, of one partition. Small grants wait until they make up half a window.
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
