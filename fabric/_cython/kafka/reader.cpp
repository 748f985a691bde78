// Records of partitions as columns, and the offsets of partitions.
#include "kafka/reader.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <stdexcept>

#include "codecs/scalars.hpp"

namespace fabric::kafka {

namespace {

// Records that are asked for at once: what they hold stays in the cache until it is copied.
constexpr size_t FETCHED_AT_ONCE = 1024;

std::string name_of(const PartitionKey& partition) {
  return "partition " + std::to_string(partition.second) + " of topic '" + partition.first + "'";
}

codecs::Span span_of(const Message& message) {
  if (message.payload == nullptr) return {nullptr, 0};
  return {static_cast<const uint8_t*>(message.payload), static_cast<int64_t>(message.length)};
}

void add_bytes(codecs::Column& column, const void* data, size_t size) {
  if (data == nullptr) column.null();
  else column.bytes(data, static_cast<int64_t>(size));
}

// A header's name as text: what is not UTF-8, against the protocol, is replaced byte by byte.
std::string text_of(std::string_view name) {
  const auto* at = reinterpret_cast<const uint8_t*>(name.data());
  std::string text;
  for (size_t i = 0; i < name.size();) {
    size_t n = 1;
    while (n <= 4 && i + n <= name.size() && !codecs::is_utf8(at + i, static_cast<int64_t>(n))) ++n;
    const bool is_text = n <= 4 && i + n <= name.size();
    text += is_text ? std::string(name.substr(i, n)) : "\xEF\xBF\xBD";
    i += is_text ? n : 1;
  }
  return text;
}

void add_headers(codecs::Column& list, const Message& message) {
  codecs::Column& pair = list.children()[0];
  Headers* headers = nullptr;
  if (api().message_headers(&message, &headers) == NO_ERROR) {
    const char* name = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    for (size_t i = 0; api().header_get_all(headers, i, &name, &value, &size) == NO_ERROR; ++i) {
      const std::string_view key(name);
      const bool is_text = codecs::is_utf8(reinterpret_cast<const uint8_t*>(key.data()),
                                           static_cast<int64_t>(key.size()));
      pair.children()[0].bytes(is_text ? key : std::string_view(text_of(key)));
      add_bytes(pair.children()[1], value, size);
      pair.end_struct();
    }
  }
  list.end_list();
}

// One row of every wanted column.
void add_row(std::vector<codecs::Column>& columns, unsigned wants, const std::string& topic,
             const Message& message) {
  size_t next = 0;
  if (wants & WANT_KEY) add_bytes(columns[next++], message.key, message.key_length);
  if (wants & WANT_VALUE) add_bytes(columns[next++], message.payload, message.length);
  if (wants & WANT_TOPIC) columns[next++].bytes(topic);
  if (wants & WANT_PARTITION) columns[next++].number(message.partition);
  if (wants & WANT_OFFSET) columns[next++].number(message.offset);
  if (wants & WANT_TIMESTAMP) {
    int kind = 0;
    const int64_t at = api().message_timestamp(&message, &kind);
    if (kind == 0) columns[next++].null();
    else columns[next++].number(at);
  }
  if (wants & WANT_HEADERS) add_headers(columns[next++], message);
}

int64_t bytes_of(const Message& message) {
  return static_cast<int64_t>(message.length + message.key_length);
}

}  // namespace

// A partition that is read. `waiting` are records that have left its queue and are not settled; the
// first `n_taken` of them were taken.
struct Reader::Split {
  PartitionKey key;
  Queue* queue = nullptr;
  std::mutex lock;
  std::deque<Message*> waiting;
  size_t n_taken = 0;
  int64_t waiting_bytes = 0;
  int64_t next = OFFSET_INVALID;  // behind the last record that was settled, or what was passed
  int64_t end = OFFSET_INVALID;  // of the partition, when it was last reached
  int32_t leader_epoch = -1;
  bool is_at_end = false;
};

Reader::Reader(const Settings& settings) : handle_(CONSUMER, settings) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) throw std::runtime_error("no file descriptor is left for an eventfd");
  main_ = api().queue_get_consumer(handle_.client());
  api().queue_cb_event_enable(main_, on_wake, &wake_fd_);
}

Reader::~Reader() {
  close();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

// On librdkafka's threads, with the lock of the queue: nothing may be done here but this.
void Reader::on_wake(Client*, void* wake_fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(*static_cast<int*>(wake_fd), &one, sizeof one);
}

void Reader::forget(Split& split) noexcept {
  for (Message* message : split.waiting) api().message_destroy(message);
  split.waiting.clear();
  api().queue_cb_event_enable(split.queue, nullptr, nullptr);
  api().queue_destroy(split.queue);
  split.queue = nullptr;
}

void Reader::close() noexcept {
  const std::lock_guard<std::mutex> lock(lock_);
  if (main_ == nullptr) return;
  if (handle_.is_own_process()) {  // else its locks may be held for ever
    for (auto& [key, split] : splits_) {
      const std::lock_guard<std::mutex> one(split->lock);
      forget(*split);
    }
    api().queue_cb_event_enable(main_, nullptr, nullptr);
    api().queue_destroy(main_);
  }
  main_ = nullptr;
  splits_.clear();
  handle_.close();
}

std::shared_ptr<Reader::Split> Reader::split_of(const PartitionKey& partition) {
  handle_.client();
  const std::lock_guard<std::mutex> lock(lock_);
  const auto found = splits_.find(partition);
  if (found == splits_.end()) throw std::invalid_argument(name_of(partition) + " is not assigned");
  return found->second;
}

void Reader::assign(const std::map<PartitionKey, Start>& starts) {
  const Api& kafka = api();
  Client* client = handle_.client();
  Partitions list;
  const std::lock_guard<std::mutex> lock(lock_);
  for (const auto& [key, start] : starts) {
    if (splits_.count(key) > 0) throw std::invalid_argument(name_of(key) + " is already assigned");
  }
  for (const auto& [key, start] : starts) {
    TopicPartition& item = list.add(key.first, key.second, start.offset);
    if (start.leader_epoch >= 0) {
      kafka.topic_partition_set_leader_epoch(&item, start.leader_epoch);
    }
    auto split = std::make_shared<Split>();
    split->key = key;
    split->next = start.offset;
    split->leader_epoch = start.leader_epoch;
    split->queue = kafka.queue_get_partition(client, key.first.c_str(), key.second);
    kafka.queue_forward(split->queue, nullptr);  // it stays apart, also once it is fetched
    kafka.queue_cb_event_enable(split->queue, on_wake, &wake_fd_);
    splits_[key] = std::move(split);
  }
  try {
    handle_.check(kafka.incremental_assign(client, list.get()), "partitions could not be assigned");
  } catch (...) {
    for (const auto& [key, start] : starts) {
      forget(*splits_[key]);
      splits_.erase(key);
    }
    throw;
  }
}

void Reader::unassign(const std::vector<PartitionKey>& partitions) {
  Partitions list;
  for (const PartitionKey& key : partitions) {
    split_of(key);
    list.add(key.first, key.second, OFFSET_INVALID);
  }
  const std::lock_guard<std::mutex> lock(lock_);
  handle_.check(api().incremental_unassign(handle_.client(), list.get()),
                "partitions could not be unassigned");
  for (const PartitionKey& key : partitions) {
    const std::lock_guard<std::mutex> one(splits_[key]->lock);
    forget(*splits_[key]);
    splits_.erase(key);
  }
}

void Reader::note(const Message& message) {
  Fault fault;
  fault.code = message.err;
  fault.name = api().err2name(message.err);
  fault.text = message.payload == nullptr
                   ? api().err2str(message.err)
                   : std::string(static_cast<const char*>(message.payload), message.length);
  if (message.topic != nullptr) {
    fault.topic = api().topic_name(message.topic);
    fault.partition = message.partition;
  }
  handle_.add(std::move(fault));
}

// Fill `waiting` up from the queue. Errors are noted, the end of the partition is remembered.
void Reader::fetch(Split& split, size_t n_records, int64_t bytes_max) {
  const Serving serving(split.key);
  Message* found[FETCHED_AT_ONCE];
  while (split.waiting.size() < n_records && split.waiting_bytes < bytes_max) {
    const size_t wanted = std::min(FETCHED_AT_ONCE, n_records - split.waiting.size());
    const ssize_t n = api().consume_batch_queue(split.queue, 0, found, wanted);
    if (n < 0) handle_.raise(api().last_error(), name_of(split.key) + " could not be read");
    for (ssize_t i = 0; i < n; ++i) {
      Message* message = found[i];
      if (message->err == NO_ERROR) {
        split.waiting.push_back(message);
        split.waiting_bytes += bytes_of(*message);
        split.is_at_end = false;
        continue;
      }
      if (message->err == ERR_PARTITION_EOF) {
        split.is_at_end = true;
        split.end = message->offset;
      } else {
        note(*message);
      }
      api().message_destroy(message);
    }
    if (n < static_cast<ssize_t>(wanted)) return;
  }
}

Taken Reader::take(const PartitionKey& partition, int64_t rows_max, int64_t bytes_max,
                   unsigned wants, const ArrowSchema& schema, codecs::Decoder* decoder,
                   ArrowArray& columns) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  if (split->queue == nullptr) throw std::invalid_argument(name_of(partition) + " was unassigned");
  fetch(*split, static_cast<size_t>(rows_max), bytes_max);
  Taken taken;
  size_t n = 0;
  for (; n < split->waiting.size() && n < static_cast<size_t>(rows_max); ++n) {
    const int64_t more = bytes_of(*split->waiting[n]);
    if (n > 0 && taken.n_bytes + more > bytes_max) break;
    taken.n_bytes += more;
  }
  taken.n_records = static_cast<int64_t>(n);
  if (n == 0) return taken;
  taken.first_offset = split->waiting[0]->offset;
  codecs::Column rows(schema);
  codecs::Span spans[FETCHED_AT_ONCE];
  for (size_t at = 0; at < n; at += FETCHED_AT_ONCE) {
    const size_t end = std::min(n, at + FETCHED_AT_ONCE);
    for (size_t i = at; i < end; ++i) {
      const Message& message = *split->waiting[i];
      spans[i - at] = span_of(message);
      add_row(rows.children(), wants, partition.first, message);
      rows.end_struct();
    }
    if (decoder != nullptr) decoder->append(spans, static_cast<int64_t>(end - at));
  }
  rows.finish(columns);
  split->n_taken = n;
  return taken;
}

Record Reader::record(const PartitionKey& partition, int64_t row) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  if (row < 0 || static_cast<size_t>(row) >= split->n_taken) {
    throw std::invalid_argument("record " + std::to_string(row) + " was not read");
  }
  const Message& message = *split->waiting[static_cast<size_t>(row)];
  return {message.offset, span_of(message)};
}

void Reader::settle(const PartitionKey& partition) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  if (split->n_taken > 0) {
    const Message* last = split->waiting[split->n_taken - 1];
    split->next = last->offset + 1;
    split->leader_epoch = api().message_leader_epoch(last);
  }
  for (; split->n_taken > 0; --split->n_taken) {
    Message* message = split->waiting.front();
    split->waiting.pop_front();
    split->waiting_bytes -= bytes_of(*message);
    api().message_destroy(message);
  }
}

// Counted here: the end of a partition lies behind markers of transactions, and all records before
// it have come. rd_kafka_position takes that end for a record up to librdkafka 2.8 at least, and is
// one too far then.
int64_t Reader::position(const PartitionKey& partition) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  if (!split->waiting.empty()) return split->waiting.front()->offset;
  return std::max(split->next, split->end);
}

int32_t Reader::leader_epoch(const PartitionKey& partition) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  return split->leader_epoch;
}

bool Reader::at_end(const PartitionKey& partition) {
  const std::shared_ptr<Split> split = split_of(partition);
  const std::lock_guard<std::mutex> lock(split->lock);
  return split->is_at_end && split->waiting.empty();
}

int64_t Reader::high_watermark(const PartitionKey& partition) {
  int64_t low = OFFSET_INVALID, high = OFFSET_INVALID;
  const int code = api().get_watermark_offsets(handle_.client(), partition.first.c_str(),
                                               partition.second, &low, &high);
  return code != NO_ERROR || high < 0 ? -1 : high;
}

std::pair<int64_t, int64_t> Reader::watermark_offsets(const PartitionKey& partition,
                                                      int timeout_ms) {
  int64_t low = OFFSET_INVALID, high = OFFSET_INVALID;
  const int code = api().query_watermark_offsets(handle_.client(), partition.first.c_str(),
                                                 partition.second, &low, &high, timeout_ms);
  if (code != NO_ERROR) {
    handle_.raise(code, "the offsets of " + name_of(partition) + " could not be read");
  }
  return {low, high};
}

std::map<PartitionKey, int64_t> Reader::offsets_in(Partitions& answered) const {
  std::map<PartitionKey, int64_t> found;
  for (int i = 0; i < answered.size(); ++i) {
    const PartitionKey key(answered[i].topic, answered[i].partition);
    if (answered[i].err != NO_ERROR) {
      handle_.raise(answered[i].err, "the offset of " + name_of(key) + " could not be read");
    }
    found[key] = answered[i].offset;
  }
  return found;
}

std::map<PartitionKey, int64_t> Reader::offsets_for_times(
    const std::map<PartitionKey, int64_t>& times, int timeout_ms) {
  Partitions list(times);
  const int code = api().offsets_for_times(handle_.client(), list.get(), timeout_ms);
  if (code != NO_ERROR) handle_.raise(code, "the offsets for the given times could not be read");
  return offsets_in(list);
}

std::map<PartitionKey, int64_t> Reader::committed(const std::vector<PartitionKey>& partitions,
                                                  int timeout_ms) {
  Partitions list;
  for (const PartitionKey& key : partitions) list.add(key.first, key.second, OFFSET_INVALID);
  const int code = api().committed(handle_.client(), list.get(), timeout_ms);
  if (code != NO_ERROR) handle_.raise(code, "the committed offsets could not be read");
  return offsets_in(list);
}

void Reader::commit(const std::map<PartitionKey, int64_t>& offsets) {
  const int code = api().commit(handle_.client(), Partitions(offsets).get(), 1);
  if (code != NO_ERROR) handle_.raise(code, "offsets could not be committed");
}

void Reader::poll() {
  handle_.client();
  const std::lock_guard<std::mutex> lock(polling_);
  if (main_ == nullptr) return;
  Message* found[64];
  for (;;) {  // callbacks are called in here; what is returned are errors
    const ssize_t n = api().consume_batch_queue(main_, 0, found, 64);
    for (ssize_t i = 0; i < n; ++i) {
      const bool is_error = found[i]->err != NO_ERROR;
      if (is_error && found[i]->err != ERR_PARTITION_EOF) note(*found[i]);
      api().message_destroy(found[i]);
      if (!is_error) throw std::logic_error("a record arrived in the queue of no partition");
    }
    if (n < 64) return;
  }
}

}  // namespace fabric::kafka
