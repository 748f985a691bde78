// The body of handle.hpp.
#include "kafka/handle.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace fabric::kafka {

namespace {

constexpr size_t LOGS_MAX = 256, FAULTS_MAX = 256;

// The number behind `key` in statistics; -1 where there is none. They are several KB, and two
// numbers of them are wanted, so they are not parsed.
int64_t number_in(const char* json, const char* key) {
  const char* at = std::strstr(json, key);
  return at == nullptr ? -1 : std::strtoll(at + std::strlen(key), nullptr, 10);
}

bool is_secret(const std::string& name) {
  for (const char* word : {"password", "secret", "key", "jaas", "token", "oauthbearer.config",
                           "username"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

Fault setting_fault(const std::string& name, const char* reason) {
  Fault fault;
  fault.code = ERR_INVALID_ARG;
  fault.name = "_INVALID_ARG";
  // The reason repeats the value.
  fault.text = is_secret(name) ? "the value of setting '" + name + "' is not valid" : reason;
  return fault;
}

}  // namespace

thread_local const PartitionKey* Serving::current_ = nullptr;

Handle::Handle(int type, const Settings& settings) : process_(getpid()) {
  const Api& kafka = api();
  Conf* conf = kafka.conf_new();
  char reason[512] = "";
  for (const auto& [name, value] : settings) {
    if (kafka.conf_set(conf, name.c_str(), value.c_str(), reason, sizeof reason) != CONF_OK) {
      kafka.conf_destroy(conf);
      throw KafkaError(setting_fault(name, reason));
    }
  }
  kafka.conf_set_opaque(conf, this);
  kafka.conf_set_log_cb(conf, on_log);
  kafka.conf_set_error_cb(conf, on_error);
  kafka.conf_set_stats_cb(conf, on_statistics);
  if (type == PRODUCER) kafka.conf_set_dr_msg_cb(conf, on_delivery);
  kafka.conf_enable_sasl_queue(conf, 1);  // tokens are renewed behind our back, not by our polls
  client_ = kafka.new_(type, conf, reason, sizeof reason);
  if (client_ == nullptr) {
    kafka.conf_destroy(conf);
    throw KafkaError(setting_fault("", reason));
  }
  ApiError* refused = kafka.sasl_background_callbacks_enable(client_);
  if (refused != nullptr) kafka.error_destroy(refused);  // no OAUTHBEARER here: nothing to renew
  if (type == CONSUMER) kafka.poll_set_consumer(client_);
}

Handle::~Handle() { close(); }

bool Handle::is_own_process() const { return getpid() == process_; }

Client* Handle::client() const {
  if (client_ == nullptr) throw std::logic_error("this Kafka client is closed");
  if (!is_own_process()) {
    throw std::logic_error(
        "this Kafka client was created by process " + std::to_string(process_) +
        " and has no threads in a forked process; create a client after the fork");
  }
  return client_;
}

void Handle::close() noexcept {
  if (client_ != nullptr && is_own_process()) api().destroy_flags(client_, DESTROY_WITHOUT_CLOSE);
  client_ = nullptr;
}

Fault Handle::fault_of(int code, const std::string& what) const {
  Fault fault;
  fault.code = code;
  fault.name = api().err2name(code);
  fault.text = what + ": " + api().err2str(code);
  fault.fatal = code == ERR_FATAL;
  return fault;
}

void Handle::raise(int code, const std::string& what) const {
  throw KafkaError(fault_of(code, what));
}

void Handle::check(ApiError* error, const std::string& what) const {
  if (error == nullptr) return;
  const Api& kafka = api();
  Fault fault;
  fault.code = kafka.error_code(error);
  fault.name = kafka.err2name(fault.code);
  fault.text = what + ": " + kafka.error_string(error);
  fault.fatal = kafka.error_is_fatal(error);
  fault.retryable = kafka.error_is_retriable(error);
  fault.requires_abort = kafka.error_txn_requires_abort(error);
  kafka.error_destroy(error);
  throw KafkaError(std::move(fault));
}

void Handle::add(Fault fault) {
  const std::lock_guard<std::mutex> lock(lock_);
  faults_.push_back(std::move(fault));
  if (faults_.size() > FAULTS_MAX) faults_.pop_front();  // a broker that is away says so for ever
}

void Handle::add_log(int level, std::string text) {
  const std::lock_guard<std::mutex> lock(lock_);
  logs_.push_back({level, std::move(text)});
  if (logs_.size() > LOGS_MAX) {
    logs_.pop_front();
    ++n_lost_logs_;
  }
}

std::vector<Fault> Handle::take_faults() {
  const std::lock_guard<std::mutex> lock(lock_);
  std::vector<Fault> taken(faults_.begin(), faults_.end());
  faults_.clear();
  return taken;
}

std::vector<LogLine> Handle::take_logs() {
  const std::lock_guard<std::mutex> lock(lock_);
  std::vector<LogLine> taken;
  if (n_lost_logs_ > 0) {
    taken.push_back({4, std::to_string(n_lost_logs_) + " older lines were dropped"});
  }
  taken.insert(taken.end(), logs_.begin(), logs_.end());
  logs_.clear();
  n_lost_logs_ = 0;
  return taken;
}

std::string Handle::statistics() {
  const std::lock_guard<std::mutex> lock(lock_);
  return statistics_;
}

bool Handle::take_failure(Fault& first) {
  const std::lock_guard<std::mutex> lock(lock_);
  if (first_failure_.code == 0) return false;
  first = std::exchange(first_failure_, Fault{});
  return true;
}

void Handle::on_log(const Client* client, int level, const char* facility, const char* text) {
  // Lines come before rd_kafka_new has returned, too: the opaque is set from the beginning.
  auto* handle = static_cast<Handle*>(api().opaque(client));
  if (handle != nullptr) handle->add_log(level, std::string(facility) + ": " + text);
}

void Handle::on_error(Client* client, int code, const char* reason, void* opaque) {
  auto* handle = static_cast<Handle*>(opaque);
  Fault fault;
  fault.code = code;
  fault.text = reason;
  if (code == ERR_FATAL) {  // says only that; which one is asked for apart
    char text[512] = "";
    fault.code = api().fatal_error(client, text, sizeof text);
    fault.text = text;
    fault.fatal = true;
  }
  fault.name = api().err2name(fault.code);
  if (const PartitionKey* partition = Serving::current()) {
    fault.topic = partition->first;
    fault.partition = partition->second;
  }
  handle->add(std::move(fault));
}

int Handle::on_statistics(Client*, char* json, size_t size, void* opaque) {
  auto* handle = static_cast<Handle*>(opaque);
  const int64_t id = number_in(json, "\"producer_id\":");
  const int64_t epoch = number_in(json, "\"producer_epoch\":");
  handle->producer_id_ = id;
  handle->producer_epoch_ = epoch;
  const std::lock_guard<std::mutex> lock(handle->lock_);
  handle->statistics_.assign(json, size);
  return 0;  // the library frees its text
}

void Handle::on_delivery(Client*, const Message* message, void* opaque) {
  if (message->err == NO_ERROR) return;
  // An aborted transaction takes its rows back: that is what was asked for.
  if (message->err == ERR_PURGE_QUEUE || message->err == ERR_PURGE_INFLIGHT) return;
  auto* handle = static_cast<Handle*>(opaque);
  handle->n_failures_.fetch_add(1);
  const std::lock_guard<std::mutex> lock(handle->lock_);
  if (handle->first_failure_.code != 0) return;
  const char* topic = api().topic_name(message->topic);
  Fault& fault = handle->first_failure_;
  fault.code = message->err;
  fault.name = api().err2name(message->err);
  fault.topic = topic == nullptr ? "" : topic;
  fault.partition = message->partition;
  fault.text = "a row of " + std::to_string(message->length + message->key_length) +
               " bytes was not delivered to partition " + std::to_string(message->partition) +
               " of topic '" + fault.topic + "': " + api().err2str(message->err);
}

std::vector<TopicFacts> ask_metadata(const Handle& handle, const std::vector<std::string>& topics,
                                     int timeout_ms) {
  const Api& kafka = api();
  Client* client = handle.client();
  std::vector<TopicFacts> facts;
  const auto ask = [&](Topic* topic, const std::string& what) {
    const Metadata* answer = nullptr;
    const int code = kafka.metadata(client, topic == nullptr ? 1 : 0, topic, &answer, timeout_ms);
    if (code != NO_ERROR) handle.raise(code, what);
    for (int i = 0; i < answer->n_topics; ++i) {
      const TopicMetadata& found = answer->topics[i];
      TopicFacts one;
      one.name = found.name;
      one.code = found.err;
      if (found.err != NO_ERROR) one.error = kafka.err2name(found.err);
      for (int j = 0; j < found.n_partitions; ++j) one.partitions.push_back(found.partitions[j].id);
      facts.push_back(std::move(one));
    }
    kafka.metadata_destroy(answer);
  };
  if (topics.empty()) ask(nullptr, "the topics could not be listed");
  for (const std::string& name : topics) {
    Topic* topic = kafka.topic_new(client, name.c_str(), nullptr);
    const std::string failed = "topic '" + name + "' could not be looked up";
    if (topic == nullptr) handle.raise(kafka.last_error(), failed);
    try {
      ask(topic, failed);
    } catch (...) {
      kafka.topic_destroy(topic);
      throw;
    }
    kafka.topic_destroy(topic);
  }
  return facts;
}

int64_t ask_message_bytes_max(const Handle& handle, const std::string& topic, int timeout_ms) {
  const Api& kafka = api();
  Client* client = handle.client();
  Queue* queue = kafka.queue_new(client);
  AdminOptions* options = kafka.AdminOptions_new(client, ADMIN_DESCRIBE_CONFIGS);
  char reason[256];
  kafka.AdminOptions_set_request_timeout(options, timeout_ms, reason, sizeof reason);
  ConfigResource* resource = kafka.ConfigResource_new(RESOURCE_TOPIC, topic.c_str());
  kafka.DescribeConfigs(client, &resource, 1, options, queue);
  Event* event = kafka.queue_poll(queue, timeout_ms + 1000);
  int64_t found = -1;
  int code = event == nullptr ? ERR_TIMED_OUT : kafka.event_error(event);
  if (code == NO_ERROR) {
    size_t n = 0, n_entries = 0;
    const ConfigResource** answers =
        kafka.DescribeConfigs_result_resources(kafka.event_DescribeConfigs_result(event), &n);
    code = n == 0 ? ERR_TIMED_OUT : kafka.ConfigResource_error(answers[0]);
    const ConfigEntry** entries =
        n == 0 ? nullptr : kafka.ConfigResource_configs(answers[0], &n_entries);
    for (size_t i = 0; i < n_entries; ++i) {
      const char* value = kafka.ConfigEntry_value(entries[i]);
      const std::string_view name = kafka.ConfigEntry_name(entries[i]);
      if (name == "max.message.bytes" && value != nullptr) found = std::atoll(value);
    }
  }
  if (event != nullptr) kafka.event_destroy(event);
  kafka.ConfigResource_destroy(resource);
  kafka.AdminOptions_destroy(options);
  kafka.queue_destroy(queue);
  if (code != NO_ERROR && code != ERR_TOPIC_DENIED && code != ERR_CLUSTER_DENIED) {
    handle.raise(code, "max.message.bytes of topic '" + topic + "' could not be read");
  }
  return found;
}

}  // namespace fabric::kafka
