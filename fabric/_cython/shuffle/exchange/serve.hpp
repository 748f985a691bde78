// A pipelined edge on its producers' agent, and what the agent of a consumer asks it for.
//
// One job: answer DoExchange. What is asked for rides in a descriptor's path, which is ["exchange",
// job, node path, edge, partitions of the edge, codec, then for each wanted: partition, how many
// producers of it are there, …]. Both ends count credit by one charge.
#pragma once
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wire/fault.hpp"

namespace fabric {

struct ExchangePath;
struct Handlers;
class JobPipes;

struct WantedPartition {
  uint32_t partition, n_producers;
};

struct ExchangeRequest {
  std::string job, node_path;
  uint32_t edge = 0, n_partitions = 0;
  std::string compression;  // of rows on their way: one of CODECS
  std::vector<WantedPartition> wanted;

  std::vector<uint32_t> partitions() const {
    std::vector<uint32_t> found;
    for (const WantedPartition& one : wanted) found.push_back(one.partition);
    return found;
  }
  Where where() const { return {.job = job, .node = node_path}; }
};

std::vector<std::string> request_path(const ExchangeRequest& request);
arrow::Result<ExchangeRequest> request_of(const ExchangePath& path);

// What a batch costs: its bytes, and a little for its slot, so that small ones are bounded too.
constexpr uint64_t SLOT_BYTES = 1 << 10;
inline uint64_t charge_of(uint64_t bytes, uint64_t n_batches = 1) {
  return bytes + SLOT_BYTES * n_batches;
}

// The exchanges behind a server's DoExchange: any job of `jobs`, once it is known; one that is not
// within `idle_s` is refused.
void bind_exchange(Handlers& handlers, std::shared_ptr<JobPipes> jobs, double idle_s, int cpu);

}  // namespace fabric
