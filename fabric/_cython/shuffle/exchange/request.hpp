// What the agent of a consumer asks the agent of a producer for.
//
// One job: to and from the numbers behind a descriptor's path, which is ["exchange", job, node
// path, edge, partitions of the edge, codec, then for each wanted: partition, how many producers of
// it are there, …].
#pragma once
#include "flight/paths.hpp"
#include "store/payload.hpp"

namespace fabric {

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

inline std::vector<std::string> request_path(const ExchangeRequest& request) {
  const auto codec = std::ranges::find(CODECS, request.compression) - CODECS.begin();
  std::vector<std::string> path{"exchange", request.job, request.node_path,
                                std::to_string(request.edge), std::to_string(request.n_partitions),
                                std::to_string(codec)};
  for (const WantedPartition& one : request.wanted) {
    path.push_back(std::to_string(one.partition));
    path.push_back(std::to_string(one.n_producers));
  }
  return path;
}

inline arrow::Result<ExchangeRequest> request_of(const ExchangePath& path) {
  const std::vector<uint32_t>& numbers = path.numbers;
  ExchangeRequest request{path.job, path.node_path, path.edge, 0, "", {}};
  if (numbers.size() < 4 || numbers.size() % 2 == 1) {
    return fault("NotFoundError", "an exchange names partitions and their producers in pairs",
                 request.where());
  }
  request.n_partitions = numbers[0];
  if (numbers[1] >= CODECS.size()) {
    return fault("NotFoundError", "rows can't be compressed by codec " + std::to_string(numbers[1]),
                 request.where());
  }
  request.compression = CODECS[numbers[1]];
  for (size_t at = 2; at < numbers.size(); at += 2) {
    if (numbers[at] >= request.n_partitions) {
      return fault("NotFoundError", "an exchange of " + std::to_string(request.n_partitions) +
                                        " partitions has no partition " +
                                        std::to_string(numbers[at]),
                   request.where());
    }
    request.wanted.push_back({numbers[at], numbers[at + 1]});
  }
  return request;
}

}  // namespace fabric
