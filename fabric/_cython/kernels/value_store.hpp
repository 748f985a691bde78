// A table of byte strings by key and sub-key in memory, frozen in microseconds.
//
// One job: `StoreCore` (one owner thread) and `Frozen`, the store as it was, which any thread may
// read while the owner goes on. Keys are rows of `RowTypes`. How it is done lives in
// value_store.cpp.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace fabric {

class RowTypes;

constexpr uint32_t STORE_SHARDS = 4096;

struct Bytes {
  const uint8_t* data = nullptr;
  int64_t n = 0;
  bool operator==(const Bytes& other) const {
    return n == other.n && (n == 0 || std::memcmp(data, other.data, static_cast<size_t>(n)) == 0);
  }
};

// The values of a large_binary array.
struct ByteRows {
  const uint8_t* data;
  const int64_t* offsets;
  int64_t n;

  Bytes at(size_t row) const { return {data + offsets[row], offsets[row + 1] - offsets[row]}; }
};

// Key, sub-key and value lie behind the header; with siblings, `Links` lie before it.
struct Entry {
  int64_t born;  // how often the store had been frozen
  uint32_t n_key, n_sub, n_value, capacity;
  uint16_t group;

  struct Links { Entry* previous; Entry* next; };  // a ring; for the owner only

  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(this + 1); }
  Bytes key() const { return {bytes(), n_key}; }
  Bytes sub() const { return {bytes() + n_key, n_sub}; }
  Bytes value() const { return {bytes() + n_key + n_sub, n_value}; }
  Links& links() { return *(reinterpret_cast<Links*>(this) - 1); }
  int64_t size(bool linked) const {
    return static_cast<int64_t>(sizeof(Entry) + (linked ? sizeof(Links) : 0)) + n_key + n_sub +
           capacity;
  }
};

class Frozen {
 public:
  class View;
  explicit Frozen(std::unique_ptr<View> view);
  ~Frozen();

  // Entries of whole shards from `shard` on, of these groups, until `n_bytes` are reached; returns
  // the shard to go on with.
  uint32_t collect(uint32_t shard, uint32_t first_group, uint32_t end_group, int64_t n_bytes,
                   std::vector<const Entry*>& out) const;

 private:
  std::unique_ptr<View> view_;
};

// Values by key, or by key and sub-key when it is linked. What is found holds until it changes.
class StoreCore {
 public:
  class Table;
  StoreCore(const RowTypes& keys, bool linked);
  ~StoreCore();

  const Entry* find(Bytes key, Bytes sub) const;
  void put(Bytes key, Bytes sub, Bytes value);
  bool remove(Bytes key, Bytes sub);

  // All entries of a key, by sub-key; and remove them, which tells how many there were.
  void siblings(Bytes key, std::vector<const Entry*>& out) const;
  int64_t clear(Bytes key);

  // The same for many keys; `subs`, one a key, are not read where the store is not linked. What is
  // not found is a nullptr in `out`.
  void find_many(const ByteRows& keys, const ByteRows& subs, std::vector<const Entry*>& out) const;
  void put_many(const ByteRows& keys, const ByteRows& subs, const ByteRows& values);
  int64_t remove_many(const ByteRows& keys, const ByteRows& subs);
  void siblings_many(const ByteRows& keys, int64_t* counts, std::vector<const Entry*>& out) const;
  int64_t clear_many(const ByteRows& keys);

  // Remove what has a time in its first 8 bytes that is not after `before`, in one shard.
  int64_t sweep(uint32_t shard, int64_t before);

  std::shared_ptr<Frozen> freeze();

  int64_t size() const;
  int64_t nbytes() const;

 private:
  std::shared_ptr<Table> table_;  // frozen views keep it alive, too
};

}  // namespace fabric
