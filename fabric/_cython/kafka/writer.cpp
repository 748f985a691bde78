// Rows on their way to topics: checked, grouped by partition, handed over.
#include "kafka/writer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace fabric::kafka {

namespace {

constexpr int64_t GROUPED_AT_ONCE = 8192;  // rows, whose bytes stay in the cache
constexpr int WAIT_MS = 5;       // for room in the buffer

uint8_t NOTHING = 0;  // what empty values point to: a null pointer is a null value

struct Bytes {
  uint8_t* data;  // null: a null value
  int64_t size;
};

bool is_null(const ArrowArray& array, int64_t i) {
  return array.null_count != 0 && array.buffers[0] != nullptr &&
         !bit_at(fabric::bytes_of(array, 0), array.offset + i);
}

Bytes bytes_at(const BytesColumn& column, int64_t i) {
  if (column.array == nullptr || is_null(*column.array, i)) return {nullptr, 0};
  const ArrowArray& array = *column.array;
  i += array.offset;
  int64_t begin, end;
  if (column.is_large) {
    const auto* offsets = static_cast<const int64_t*>(array.buffers[1]);
    begin = offsets[i], end = offsets[i + 1];
  } else {
    const auto* offsets = static_cast<const int32_t*>(array.buffers[1]);
    begin = offsets[i], end = offsets[i + 1];
  }
  if (begin == end) return {&NOTHING, 0};
  return {static_cast<uint8_t*>(const_cast<void*>(array.buffers[2])) + begin, end - begin};
}

template <class T>
T number_at(const ArrowArray& array, int64_t i) {
  return static_cast<const T*>(array.buffers[1])[array.offset + i];
}

int varint_bytes(int64_t value) {  // zigzag
  uint64_t left = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  int n = 1;
  while (left >>= 7) ++n;
  return n;
}

// The headers of row `i`: first and behind the last of their pairs.
std::pair<int64_t, int64_t> headers_at(const ArrowArray& lists, int64_t i) {
  if (is_null(lists, i)) return {0, 0};
  const auto* offsets = static_cast<const int32_t*>(lists.buffers[1]) + lists.offset + i;
  return {offsets[0], offsets[1]};
}

struct HeaderColumns {
  BytesColumn names, values;
  explicit HeaderColumns(const ArrowArray& lists) {
    names.array = lists.children[0]->children[0];
    values.array = lists.children[0]->children[1];
    shift = lists.children[0]->offset;
  }
  int64_t shift;  // of the struct, on top of its children's own
};

// What the log would hold of a row that is alone in its batch, as format 2 says.
int64_t record_bytes(const Rows& rows, int64_t i, Bytes key, Bytes value) {
  constexpr int64_t BATCH_HEADER = 61;
  int64_t n_headers = 0, header_bytes = 0;
  if (rows.headers != nullptr) {
    const HeaderColumns columns(*rows.headers);
    const auto [begin, end] = headers_at(*rows.headers, i);
    for (int64_t at = begin; at < end; ++at, ++n_headers) {
      const int64_t name = bytes_at(columns.names, columns.shift + at).size;
      const Bytes content = bytes_at(columns.values, columns.shift + at);
      header_bytes += varint_bytes(name) + name + content.size +
                      varint_bytes(content.data == nullptr ? -1 : content.size);
    }
  }
  const int64_t body = 3 + varint_bytes(key.data == nullptr ? -1 : key.size) + key.size +
                       varint_bytes(value.data == nullptr ? -1 : value.size) + value.size +
                       varint_bytes(n_headers) + header_bytes;
  return BATCH_HEADER + varint_bytes(body) + body;
}

std::string setting(const Settings& settings, const std::string& name, const std::string& absent) {
  std::string found = absent;
  for (const auto& [key, value] : settings) {
    if (key == name) found = value;
  }
  return found;
}

Fault row_fault(int code, const char* name, int64_t row, std::string text) {
  Fault fault;
  fault.code = code;
  fault.name = name;
  fault.row = row;
  fault.text = std::move(text);
  return fault;
}

}  // namespace

struct Writer::Target {
  std::string name;
  Topic* topic = nullptr;
  int32_t n_partitions = 0;
  int64_t message_bytes_max = -1;
  uint32_t n_calls = 0;  // rows without a key go to another partition with each

  ~Target() {
    if (topic != nullptr) api().topic_destroy(topic);
  }
};

// The rows of one call on their way.
struct Writer::Sender {
  Writer& writer;
  Target& target;
  const Rows& rows;
  const std::chrono::steady_clock::time_point end;
  std::vector<Message> messages;
  std::vector<int32_t> partitions;
  std::vector<int64_t> places, origins;  // of each partition's rows; the row of each message

  int32_t partition_at(int64_t i) const {
    if (rows.partitions != nullptr) return number_at<int32_t>(*rows.partitions, i);
    const Bytes key = bytes_at(rows.keys, i);
    if (key.data == nullptr) {
      return static_cast<int32_t>(target.n_calls % static_cast<uint32_t>(target.n_partitions));
    }
    return partition_of(key.data, static_cast<size_t>(key.size), target.n_partitions);
  }

  void check_rows() const;
  void send_chunk(int64_t first, int64_t n);
  void send_run(int32_t partition, int64_t first, int64_t n);
  void send_one(int64_t i);
  void wait(int64_t row) const;
};

Writer::Writer(const Settings& settings) : handle_(PRODUCER, settings) {
  setting_bytes_max_ = std::atoll(setting(settings, "message.max.bytes", "1000000").c_str());
  std::string codec = setting(settings, "compression.codec", "none");
  codec = setting(settings, "compression.type", codec);
  is_compressed_ = codec != "none";
}

Writer::~Writer() { close(); }

void Writer::close() noexcept {
  const std::lock_guard<std::mutex> lock(lock_);
  if (!handle_.is_own_process()) {
    for (auto& [name, target] : targets_) target->topic = nullptr;  // the parent's
  }
  targets_.clear();
  handle_.close();
}

int32_t Writer::open(const std::string& topic, int timeout_ms) {
  Client* client = handle_.client();
  const std::vector<TopicFacts> facts = ask_metadata(handle_, {topic}, timeout_ms);
  const int code = facts.empty() ? ERR_UNKNOWN_TOPIC : facts[0].code;
  if (code != NO_ERROR) handle_.raise(code, "topic '" + topic + "' could not be looked up");
  const std::lock_guard<std::mutex> lock(lock_);
  std::unique_ptr<Target>& target = targets_[topic];
  if (target == nullptr) {
    target = std::make_unique<Target>();
    target->name = topic;
    target->topic = api().topic_new(client, topic.c_str(), nullptr);
    target->n_calls = static_cast<uint32_t>(murmur2(topic.data(), topic.size()));
  }
  target->n_partitions = static_cast<int32_t>(facts[0].partitions.size());
  return target->n_partitions;
}

Writer::Target& Writer::target_of(const std::string& topic) {
  const std::lock_guard<std::mutex> lock(lock_);
  const auto found = targets_.find(topic);
  if (found == targets_.end()) throw std::invalid_argument("topic '" + topic + "' is not open");
  return *found->second;
}

int64_t Writer::message_bytes_max(const std::string& topic, int timeout_ms) {
  const int64_t found = ask_message_bytes_max(handle_, topic, timeout_ms);
  const std::lock_guard<std::mutex> lock(lock_);
  const auto target = targets_.find(topic);
  if (target != targets_.end() && found > 0) target->second->message_bytes_max = found;
  return found;
}

// Refuse what can be known to be refused before anything is sent.
void Writer::Sender::check_rows() const {
  int64_t largest = writer.setting_bytes_max_;
  // A compressed message may be larger before: only the broker can tell.
  if (!writer.is_compressed_ && target.message_bytes_max > 0) {
    largest = std::min(largest, target.message_bytes_max);
  }
  for (int64_t i = 0; i < rows.values.array->length; ++i) {
    const Bytes key = bytes_at(rows.keys, i), value = bytes_at(rows.values, i);
    if (__builtin_expect(key.size + value.size + 128 > largest || rows.headers != nullptr, 0)) {
      const int64_t size = record_bytes(rows, i, key, value);
      if (size > largest) {
        throw KafkaError(row_fault(
            ERR_MSG_SIZE_TOO_LARGE, "MSG_SIZE_TOO_LARGE", i,
            "row " + std::to_string(i) + " makes a message of " + std::to_string(size) +
                " bytes, topic '" + target.name + "' accepts at most " + std::to_string(largest) +
                " (the topic's max.message.bytes, or the producer's message.max.bytes)"));
      }
    }
    if (rows.partitions == nullptr) continue;
    const int32_t partition = partition_at(i);
    if (is_null(*rows.partitions, i) || partition < 0 || partition >= target.n_partitions) {
      throw KafkaError(row_fault(
          ERR_UNKNOWN_PARTITION, "_UNKNOWN_PARTITION", i,
          "row " + std::to_string(i) + " is for partition " +
              (is_null(*rows.partitions, i) ? "null" : std::to_string(partition)) + ", topic '" +
              target.name + "' has " + std::to_string(target.n_partitions) + " partitions"));
    }
  }
}

// Let librdkafka send something; throws when the time is over.
void Writer::Sender::wait(int64_t row) const {
  if (std::chrono::steady_clock::now() >= end) {
    throw KafkaError(row_fault(ERR_QUEUE_FULL, "_QUEUE_FULL", -1,
                               "the producer's queue is full at row " + std::to_string(row) +
                                   " for topic '" + target.name + "'; check the brokers"));
  }
  api().poll(writer.handle_.client(), WAIT_MS);
}

// Rows of one partition, which lie next to each other in `messages`.
void Writer::Sender::send_run(int32_t partition, int64_t first, int64_t n) {
  while (n > 0) {
    api().produce_batch(target.topic, partition, FLAG_COPY, &messages[static_cast<size_t>(first)],
                        static_cast<int>(n));
    int64_t i = 0;  // if the queue is full for one row, it is full for all later ones
    while (i < n && messages[static_cast<size_t>(first + i)].err == NO_ERROR) ++i;
    first += i, n -= i;
    if (n == 0) return;
    const int64_t row = origins[static_cast<size_t>(first)];
    const int code = messages[static_cast<size_t>(first)].err;
    if (code != ERR_QUEUE_FULL) {
      Fault fault = writer.handle_.fault_of(code, "row " + std::to_string(row) + " for topic '" +
                                                      target.name + "' was rejected");
      fault.row = row;
      throw KafkaError(std::move(fault));
    }
    wait(row);
    for (int64_t j = first; j < first + n; ++j) messages[static_cast<size_t>(j)].err = NO_ERROR;
  }
}

// A counting sort by partition, then one call for each (Knuth, TAOCP vol. 3, 5.2, algorithm D).
void Writer::Sender::send_chunk(int64_t first, int64_t n) {
  places.assign(static_cast<size_t>(target.n_partitions) + 1, 0);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t partition = partition_at(first + i);
    partitions[static_cast<size_t>(i)] = partition;
    ++places[static_cast<size_t>(partition) + 1];
  }
  for (size_t p = 0; p + 1 < places.size(); ++p) places[p + 1] += places[p];
  std::vector<int64_t>& next = places;  // ends as the end of each partition's rows
  for (int64_t i = 0; i < n; ++i) {
    const int32_t partition = partitions[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(next[static_cast<size_t>(partition)]++);
    const Bytes key = bytes_at(rows.keys, first + i), value = bytes_at(rows.values, first + i);
    messages[at] = Message{};
    messages[at].payload = value.data, messages[at].length = static_cast<size_t>(value.size);
    messages[at].key = key.data, messages[at].key_length = static_cast<size_t>(key.size);
    messages[at].partition = partition;
    origins[at] = first + i;
  }
  int64_t begin = 0;
  for (int32_t p = 0; p < target.n_partitions; ++p) {
    const int64_t after = next[static_cast<size_t>(p)];
    if (after > begin) send_run(p, begin, after - begin);
    begin = after;
  }
}

// A row with headers or a time of its own, which batches can't carry.
void Writer::Sender::send_one(int64_t i) {
  const Bytes key = bytes_at(rows.keys, i), value = bytes_at(rows.values, i);
  Tagged parts[7];
  size_t n = 0;
  parts[n].tag = Tag::topic, parts[n++].as.topic = target.topic;
  parts[n].tag = Tag::partition, parts[n++].as.partition = partition_at(i);
  parts[n].tag = Tag::flags, parts[n++].as.flags = FLAG_COPY;
  parts[n].tag = Tag::value;
  parts[n++].as.bytes = {value.data, static_cast<size_t>(value.size)};
  parts[n].tag = Tag::key;
  parts[n++].as.bytes = {key.data, static_cast<size_t>(key.size)};
  if (rows.timestamps != nullptr && !is_null(*rows.timestamps, i)) {
    parts[n].tag = Tag::timestamp;  // 0 would be "now" to librdkafka
    const int64_t time_ms = number_at<int64_t>(*rows.timestamps, i);
    parts[n++].as.timestamp = time_ms == 0 ? 1 : time_ms;
  }
  Headers* headers = nullptr;
  if (rows.headers != nullptr) {
    const HeaderColumns columns(*rows.headers);
    const auto [begin, after] = headers_at(*rows.headers, i);
    headers = api().headers_new(static_cast<size_t>(after - begin));
    for (int64_t at = begin; at < after; ++at) {
      const Bytes name = bytes_at(columns.names, columns.shift + at);
      const Bytes content = bytes_at(columns.values, columns.shift + at);
      api().header_add(headers, reinterpret_cast<const char*>(name.data), name.size, content.data,
                       content.size);
    }
    parts[n].tag = Tag::headers, parts[n++].as.headers = headers;
  }
  for (;;) {
    ApiError* error = api().produceva(writer.handle_.client(), parts, n);
    if (error == nullptr) return;  // the headers are librdkafka's now
    if (api().error_code(error) != ERR_QUEUE_FULL) {
      if (headers != nullptr) api().headers_destroy(headers);
      try {
        writer.handle_.check(error, "row " + std::to_string(i) + " for '" + target.name + "'");
      } catch (KafkaError& refused) {
        refused.fault.row = i;
        throw;
      }
    }
    api().error_destroy(error);
    try {
      wait(i);
    } catch (...) {
      if (headers != nullptr) api().headers_destroy(headers);
      throw;
    }
  }
}

void Writer::write(const std::string& topic, const Rows& rows, int timeout_ms) {
  Client* client = handle_.client();
  Target& target = target_of(topic);
  const int64_t n_rows = rows.values.array->length;
  Sender sender{*this, target, rows,
                std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms),
                {}, {}, {}, {}};
  ++target.n_calls;
  sender.check_rows();
  if (rows.headers != nullptr || rows.timestamps != nullptr) {
    for (int64_t i = 0; i < n_rows; ++i) {
      sender.send_one(i);
      if ((i & 1023) == 1023) api().poll(client, 0);
    }
  } else {
    const auto room = static_cast<size_t>(std::min(GROUPED_AT_ONCE, n_rows));
    sender.messages.resize(room);
    sender.partitions.resize(room);
    sender.origins.resize(room);
    for (int64_t at = 0; at < n_rows; at += GROUPED_AT_ONCE) {
      sender.send_chunk(at, std::min(GROUPED_AT_ONCE, n_rows - at));
      api().poll(client, 0);
    }
  }
  api().poll(client, 0);
}

void Writer::flush(int timeout_ms) {
  const int code = api().flush(handle_.client(), timeout_ms);
  Fault first;
  if (handle_.take_failure(first)) throw KafkaError(std::move(first));
  if (code != NO_ERROR) {
    handle_.raise(code, std::to_string(n_queued()) + " rows were not acknowledged in time");
  }
}

void Writer::purge() {
  const int code = api().purge(handle_.client(), PURGE_QUEUED | PURGE_IN_FLIGHT);
  if (code != NO_ERROR) handle_.raise(code, "queued rows could not be dropped");
  api().flush(handle_.client(), 1000);
}

void Writer::poll() { api().poll(handle_.client(), 0); }

int64_t Writer::n_queued() { return api().outq_len(handle_.client()); }

}  // namespace fabric::kafka
