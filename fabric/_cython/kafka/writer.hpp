// Arrow columns written to topics, in transactions where wanted.
//
// One job: choose partitions as Java's client does, group rows by them (librdkafka is three times
// as fast then) and hand them over with backpressure; the verbs of a transaction; which rows a
// topic refuses before any of them is sent. Rows are copied, so no array need outlive a call.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "kafka/handle.hpp"

namespace fabric::kafka {

// The bytes of a column of text or binary, with offsets of 32 or 64 bits.
struct BytesColumn {
  const ArrowArray* array = nullptr;  // null: no column, every value is null
  bool is_large = false;
};

// What is written in one call; all columns have as many rows as `values`.
struct Rows {
  BytesColumn keys, values;
  const ArrowArray* partitions = nullptr;  // int32; null: by the key
  const ArrowArray* timestamps = nullptr;  // int64, milliseconds; null rows: now
  const ArrowArray* headers = nullptr;     // list<struct<key: string, value: binary>>
};

inline uint32_t murmur2(const void* key, size_t size) {
  constexpr uint32_t SEED = 0x9747b28c, M = 0x5bd1e995;
  const auto* at = static_cast<const uint8_t*>(key);
  uint32_t hash = SEED ^ static_cast<uint32_t>(size);
  for (; size >= 4; size -= 4, at += 4) {
    uint32_t word;
    std::memcpy(&word, at, 4);  // little-endian, as Java's reads it
    word *= M;
    word ^= word >> 24;
    word *= M;
    hash *= M;
    hash ^= word;
  }
  if (size >= 3) hash ^= static_cast<uint32_t>(at[2]) << 16;
  if (size >= 2) hash ^= static_cast<uint32_t>(at[1]) << 8;
  if (size >= 1) {
    hash ^= at[0];
    hash *= M;
  }
  hash ^= hash >> 13;
  hash *= M;
  return hash ^ hash >> 15;
}

// The partition of a key, equal to that of Java's default partitioner.
inline int32_t partition_of(const void* key, size_t size, int32_t n_partitions) {
  return static_cast<int32_t>((murmur2(key, size) & 0x7fffffff) %
                              static_cast<uint32_t>(n_partitions));
}

class Writer {
 public:
  explicit Writer(const Settings& settings);
  ~Writer();

  // Ask for the partitions of a topic, which must be done before rows go to one of them: else
  // librdkafka makes partition -1 part of the transaction. Returns their number.
  int32_t open(const std::string& topic, int timeout_ms);
  // The largest message that the topic takes, as the broker says; -1: it may not be asked.
  int64_t message_bytes_max(const std::string& topic, int timeout_ms);

  // Rows in order of their partition; within one they keep their order. Waits while librdkafka's
  // buffer is full. Throws KafkaError: with `row` set nothing was sent where the row is too large
  // or its partition is not there.
  void write(const std::string& topic, const Rows& rows, int timeout_ms);

  void init_transactions(int timeout_ms);
  void begin();
  void send_offsets(const std::map<PartitionKey, int64_t>& offsets, const std::string& group,
                    int timeout_ms);
  void commit(int timeout_ms);
  void abort(int timeout_ms);
  void flush(int timeout_ms);  // throws what the first row that was not delivered died of
  void purge();
  void poll();
  int64_t n_queued();
  // The producer's id and epoch; known some time after a transaction could be begun. -1: not yet.
  std::pair<int64_t, int64_t> producer_id(int timeout_ms);

  Handle& handle() { return handle_; }
  void close() noexcept;

 private:
  struct Target;
  struct Sender;
  Target& target_of(const std::string& topic);

  Handle handle_;
  int64_t setting_bytes_max_ = 0;  // message.max.bytes
  bool is_compressed_ = false;
  std::mutex lock_;  // of targets_
  std::map<std::string, std::unique_ptr<Target>> targets_;
};

}  // namespace fabric::kafka
