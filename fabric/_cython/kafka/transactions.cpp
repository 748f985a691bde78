// The verbs of a writer's transactions.
#include <chrono>

#include "kafka/writer.hpp"

namespace fabric::kafka {

void Writer::init_transactions(int timeout_ms) {
  handle_.check(api().init_transactions(handle_.client(), timeout_ms),
                "the transactional id could not be initialized");
}

void Writer::begin() {
  Fault before;
  handle_.take_failure(before);  // of a transaction that was aborted since
  handle_.check(api().begin_transaction(handle_.client()), "the transaction could not be started");
}

void Writer::send_offsets(const std::map<PartitionKey, int64_t>& offsets, const std::string& group,
                          int timeout_ms) {
  Partitions list(offsets);
  GroupMetadata* metadata = api().consumer_group_metadata_new(group.c_str());
  ApiError* error = api().send_offsets_to_transaction(handle_.client(), list.get(), metadata,
                                                      timeout_ms);
  api().consumer_group_metadata_destroy(metadata);
  handle_.check(error, "offsets could not be added to the transaction");
}

void Writer::commit(int timeout_ms) {
  try {
    handle_.check(api().commit_transaction(handle_.client(), timeout_ms),
                  "the transaction could not be committed");
  } catch (KafkaError& error) {
    Fault row;  // librdkafka says only that there is one
    if (handle_.take_failure(row)) {
      error.fault.text += "; " + row.text;
      error.fault.topic = row.topic, error.fault.partition = row.partition;
      if (!error.fault.fatal) error.fault.code = row.code, error.fault.name = row.name;
    }
    throw;
  }
}

void Writer::abort(int timeout_ms) {
  handle_.check(api().abort_transaction(handle_.client(), timeout_ms),
                "the transaction could not be aborted");
  Fault dropped;
  handle_.take_failure(dropped);
}

std::pair<int64_t, int64_t> Writer::producer_id(int timeout_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (handle_.producer().first < 0 && std::chrono::steady_clock::now() < end) {
    api().poll(handle_.client(), 10);  // statistics tell it
  }
  return handle_.producer();
}

}  // namespace fabric::kafka
