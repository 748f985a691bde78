// One client of librdkafka: settings, faults, logs, statistics, and the process it belongs to.
//
// One job: what a reader and a writer have in common. librdkafka's callbacks only write down what
// they were given, under a lock of their own, and never call Python; faces take it from here.
// A handle is used by the process that made it alone: a forked child has none of its threads.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kafka/abi.hpp"

namespace fabric::kafka {

using Settings = std::vector<std::pair<std::string, std::string>>;
using PartitionKey = std::pair<std::string, int32_t>;

// What went wrong, as librdkafka says it.
struct Fault {
  int code = 0;
  std::string name;  // "_TRANSPORT", "MSG_SIZE_TOO_LARGE"
  std::string text;
  bool fatal = false;      // the handle is of no use any more
  bool retryable = false;
  bool requires_abort = false;  // of the transaction that is under way
  std::string topic;            // empty: no one's
  int32_t partition = -1;
  int64_t row = -1;             // of what was to be written; -1: not a row's
};

class __attribute__((visibility("default"))) KafkaError : public std::runtime_error {
 public:
  explicit KafkaError(Fault fault) : std::runtime_error(fault.text), fault(std::move(fault)) {}
  Fault fault;
};

struct LogLine {
  int level;  // syslog's: 3 is an error, 7 debug
  std::string text;
};

// While it lives, errors that this thread is told of belong to a partition: librdkafka names it in
// their text alone.
class Serving {
 public:
  explicit Serving(const PartitionKey& partition) { current_ = &partition; }
  ~Serving() { current_ = nullptr; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  static const PartitionKey* current() { return current_; }

 private:
  static thread_local const PartitionKey* current_;
};

class Handle {
 public:
  Handle(int type, const Settings& settings);  // throws KafkaError naming the setting
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // The client; throws where it is closed, or this is not the process that made it.
  Client* client() const;
  bool is_own_process() const;

  void close() noexcept;  // may take a while: joins threads. In a forked child: forgets.

  Fault fault_of(int code, const std::string& what) const;
  [[noreturn]] void raise(int code, const std::string& what) const;
  void check(ApiError* error, const std::string& what) const;  // throws if not null; frees it

  void add(Fault fault);
  void add_log(int level, std::string text);
  std::vector<Fault> take_faults();
  std::vector<LogLine> take_logs();
  std::string statistics();  // JSON; empty before the first
  std::pair<int64_t, int64_t> producer() const { return {producer_id_, producer_epoch_}; }

  // Rows that were not delivered, and what the first one died of, since `take_failure`.
  int64_t n_failures() const { return n_failures_; }
  bool take_failure(Fault& first);

 private:
  static void on_log(const Client*, int level, const char* facility, const char* text);
  static void on_error(Client*, int code, const char* reason, void* opaque);
  static int on_statistics(Client*, char* json, size_t size, void* opaque);
  static void on_delivery(Client*, const Message* message, void* opaque);

  Client* client_ = nullptr;
  pid_t process_;
  mutable std::mutex lock_;
  std::deque<Fault> faults_;
  std::deque<LogLine> logs_;
  int64_t n_lost_logs_ = 0;
  std::string statistics_;
  std::atomic<int64_t> producer_id_{-1}, producer_epoch_{-1};
  std::atomic<int64_t> n_failures_{0};
  Fault first_failure_;
};

// A list of partitions for one call.
class Partitions {
 public:
  Partitions() : list_(api().topic_partition_list_new(8)) {}
  explicit Partitions(const std::map<PartitionKey, int64_t>& offsets) : Partitions() {
    for (const auto& [key, offset] : offsets) add(key.first, key.second, offset);
  }
  ~Partitions() { api().topic_partition_list_destroy(list_); }
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;
  TopicPartition& add(const std::string& topic, int32_t partition, int64_t offset) {
    TopicPartition* item = api().topic_partition_list_add(list_, topic.c_str(), partition);
    item->offset = offset;
    return *item;
  }
  int size() const { return list_->n; }
  TopicPartition& operator[](int i) { return list_->items[i]; }
  PartitionList* get() { return list_; }

 private:
  PartitionList* list_;
};

struct TopicFacts {
  std::string name;
  std::vector<int32_t> partitions;
  int code = 0;
  std::string error;  // the code's name; empty: fine
};

// Ask the brokers for `topics`, or all when there are none.
std::vector<TopicFacts> ask_metadata(const Handle& handle, const std::vector<std::string>& topics,
                                     int timeout_ms);

// The largest message that a topic takes, as the broker says; -1: it may not be asked.
int64_t ask_message_bytes_max(const Handle& handle, const std::string& topic, int timeout_ms);

}  // namespace fabric::kafka
