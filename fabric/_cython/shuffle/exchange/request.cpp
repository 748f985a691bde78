// Requests to and from paths, and credits that come in.
#include "exchange/request.hpp"

#include <utility>

#include "flight/paths.hpp"
#include "store/payload.hpp"
#include "wire/header.hpp"

namespace fabric {

std::vector<std::string> request_path(const ExchangeRequest& request) {
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

arrow::Result<ExchangeRequest> request_of(const ExchangePath& path) {
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

Ledger::Ledger(const std::vector<WantedPartition>& wanted) {
  for (const WantedPartition& one : wanted) accounts_[one.partition];
}

arrow::Status Ledger::apply(const Credit& credit) {
  constexpr uint64_t GRANT_BYTES_MAX = uint64_t{1} << 40;
  for (const PartitionCredit& grant : credit.grants) {
    ARROW_ASSIGN_OR_RAISE(Account* const granted, account(grant.partition));
    if (grant.bytes > GRANT_BYTES_MAX) {
      return fault("DataError", "a credit of " + std::to_string(grant.bytes) + " bytes is absurd");
    }
    granted->bytes += static_cast<int64_t>(grant.bytes);
  }
  for (const uint32_t partition : credit.closed) {
    ARROW_ASSIGN_OR_RAISE(Account* const closed, account(partition));
    closed->closed = true;
  }
  for (const SilentPartition& one : credit.silent) {
    ARROW_ASSIGN_OR_RAISE(Account* const silent, account(one.partition));
    silent->silent_until = one.until;
  }
  return arrow::Status::OK();
}

arrow::Result<Ledger::Account*> Ledger::account(uint32_t partition) {
  const auto found = accounts_.find(partition);
  if (found != accounts_.end()) return &found->second;
  return fault("DataError", "a credit names partition " + std::to_string(partition) +
                                ", which is not of this exchange");
}

}  // namespace fabric
