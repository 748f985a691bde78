// A table of byte strings by key and sub-key in memory, frozen in microseconds.
//
// One job: `ValueStore` (one owner thread) and `Frozen`, the store as it was, which any thread may
// read while the owner goes on. The table is cut into shards by the low bits of the hash. Freezing
// takes a reference to each shard; the owner copies a shard's slots before it changes one that is
// shared. Entries never change while a frozen view can see them: they are replaced, and the old
// ones freed once no view is left that saw them. Growing moves one shard, so no call stalls long.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "rows.hpp"

namespace fabric {

constexpr uint32_t STORE_SHARDS = 4096;
constexpr int STORE_SHARD_BITS = 12;

struct Bytes {
  const uint8_t* data = nullptr;
  int64_t n = 0;
  bool operator==(const Bytes& other) const {
    return n == other.n && (n == 0 || std::memcmp(data, other.data, static_cast<size_t>(n)) == 0);
  }
};

inline uint32_t store_size(int64_t n) {
  if (n >= INT64_C(0xFFFFFFFF)) throw std::overflow_error("a key or value has more than 4 GiB");
  return static_cast<uint32_t>(n);
}

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

  static Entry* make(bool linked, Bytes key, Bytes sub, Bytes value) {
    const size_t before = linked ? sizeof(Links) : 0;
    const uint32_t n_key = store_size(key.n), n_sub = store_size(sub.n);
    const uint32_t n_value = store_size(value.n);
    const size_t n = before + sizeof(Entry) + n_key + n_sub + n_value;
    auto* room = static_cast<uint8_t*>(std::malloc(n));
    if (room == nullptr) throw std::bad_alloc();
    auto* entry = reinterpret_cast<Entry*>(room + before);
    *entry = Entry{0, n_key, n_sub, n_value, n_value, 0};
    copy(entry->bytes(), key);
    copy(entry->bytes() + n_key, sub);
    copy(entry->bytes() + n_key + n_sub, value);
    return entry;
  }

  static void drop(bool linked, Entry* entry) {
    std::free(reinterpret_cast<uint8_t*>(entry) - (linked ? sizeof(Links) : 0));
  }

  static void copy(uint8_t* to, Bytes from) {
    if (from.n > 0) std::memcpy(to, from.data, static_cast<size_t>(from.n));
  }
};

// Open addressing with linear probing; removal moves later slots back, so there are no tombstones.
struct Slot {
  uint64_t hash;
  Entry* entry;  // nullptr: free
};

struct alignas(16) Shard {  // its slots lie right behind it
  std::atomic<int32_t> references{1};
  uint32_t mask;
  uint32_t n = 0;

  explicit Shard(uint32_t n_slots) : mask(n_slots - 1) {}
  Slot* slots() { return reinterpret_cast<Slot*>(this + 1); }
  uint32_t home(uint64_t hash) const {
    return static_cast<uint32_t>(hash >> STORE_SHARD_BITS) & mask;
  }
  int64_t nbytes() const {
    return static_cast<int64_t>(sizeof(Shard) + (int64_t{mask} + 1) * sizeof(Slot));
  }

  static Shard* make(uint32_t n_slots) {
    void* room = std::calloc(1, sizeof(Shard) + n_slots * sizeof(Slot));
    if (room == nullptr) throw std::bad_alloc();
    return new (room) Shard(n_slots);
  }
  static void release(Shard* shard) {
    if (shard != nullptr && shard->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::free(shard);
    }
  }

  void place(uint64_t hash, Entry* entry) {
    uint32_t at = home(hash);
    while (slots()[at].entry != nullptr) at = (at + 1) & mask;
    slots()[at] = {hash, entry};
    ++n;
  }

  // The same with `n_slots`, this one released.
  Shard* moved(uint32_t n_slots) {
    Shard* made = make(n_slots);
    for (uint32_t i = 0; i <= mask; ++i) {
      if (slots()[i].entry != nullptr) made->place(slots()[i].hash, slots()[i].entry);
    }
    release(this);
    return made;
  }

  void erase(uint32_t at) {
    --n;
    for (uint32_t next = (at + 1) & mask;; next = (next + 1) & mask) {
      const Slot& moving = slots()[next];
      if (moving.entry == nullptr) break;
      if (((next - home(moving.hash)) & mask) >= ((next - at) & mask)) {
        slots()[at] = moving;
        at = next;
      }
    }
    slots()[at] = {0, nullptr};
  }
};

// A store's shards: the owner's, or those of a frozen view. What is needed to find a slot lies here
// together, so that a look-up waits for memory twice: for the slot and for its entry.
class Shards {
 public:
  Shards() : places_(STORE_SHARDS) {}
  Shards(const Shards& other) : places_(other.places_) {
    for (const Place& place : places_) {
      if (place.shard != nullptr) place.shard->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Shards& operator=(const Shards&) = delete;
  ~Shards() {
    for (const Place& place : places_) Shard::release(place.shard);
  }

  Shard* at(uint32_t index) const { return places_[index].shard; }
  Shard* of(uint64_t hash) const { return places_[hash & (STORE_SHARDS - 1)].shard; }

  void prefetch(uint64_t hash) const {
    const Place& place = places_[hash & (STORE_SHARDS - 1)];
    if (place.shard != nullptr) __builtin_prefetch(place.slots + place.home(hash));
  }

  template <class Same>
  Slot* find(uint64_t hash, Same same) const {
    const Place& place = places_[hash & (STORE_SHARDS - 1)];
    if (place.shard == nullptr) return nullptr;
    for (uint32_t at = place.home(hash);; at = (at + 1) & place.mask) {
      Slot& slot = place.slots[at];
      if (slot.entry == nullptr) return nullptr;
      if (slot.hash == hash && same(*slot.entry)) return &slot;
    }
  }

  // The shard of a hash, not shared with anybody, with room for one more.
  Shard* own(uint64_t hash, bool grow) {
    Place& place = places_[hash & (STORE_SHARDS - 1)];
    Shard* shard = place.shard;
    if (shard == nullptr) {
      place = Place(Shard::make(4));
      return place.shard;
    }
    const bool full = grow && shard->n + 1 > (shard->mask + 1) / 4 * 3;
    if (full || shard->references.load(std::memory_order_acquire) > 1) {
      place = Place(shard->moved((shard->mask + 1) * (full ? 2 : 1)));
    }
    return place.shard;
  }

  int64_t nbytes() const {
    int64_t n = STORE_SHARDS * static_cast<int64_t>(sizeof(Place));
    for (const Place& place : places_) {
      if (place.shard != nullptr) n += place.shard->nbytes();
    }
    return n;
  }

 private:
  struct Place {
    Shard* shard = nullptr;
    Slot* slots = nullptr;
    uint32_t mask = 0;

    Place() = default;
    explicit Place(Shard* shard) : shard(shard), slots(shard->slots()), mask(shard->mask) {}
    uint32_t home(uint64_t hash) const {
      return static_cast<uint32_t>(hash >> STORE_SHARD_BITS) & mask;
    }
  };

  std::vector<Place> places_;
};

// What a frozen view and its store both know.
struct FreezeState {
  int64_t generation;
  std::atomic<bool> released{false};
};

class StoreCore;

class Frozen {
 public:
  Frozen(std::shared_ptr<StoreCore> core, std::shared_ptr<FreezeState> state, const Shards& shards)
      : core_(std::move(core)), state_(std::move(state)), shards_(shards) {}
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;
  ~Frozen() { state_->released.store(true, std::memory_order_release); }

  // Entries of whole shards from `shard` on, of these groups, until `n_bytes` are reached; returns
  // the shard to go on with.
  uint32_t collect(uint32_t shard, uint32_t first_group, uint32_t end_group, int64_t n_bytes,
                   std::vector<const Entry*>& out) const {
    int64_t n = 0;
    for (; shard < STORE_SHARDS && n < n_bytes; ++shard) {
      Shard* found = shards_.at(shard);
      if (found == nullptr) continue;
      for (uint32_t i = 0; i <= found->mask; ++i) {
        const Entry* entry = found->slots()[i].entry;
        if (entry == nullptr || entry->group < first_group || entry->group >= end_group) continue;
        out.push_back(entry);
        n += entry->n_key + entry->n_sub + entry->n_value;
      }
    }
    return shard;
  }

 private:
  std::shared_ptr<StoreCore> core_;  // owns the entries; outlives the shards below it
  std::shared_ptr<FreezeState> state_;
  Shards shards_;
};

// The entries and the table; kept alive by its store and by frozen views.
class StoreCore {
 public:
  StoreCore(const RowTypes& keys, bool linked) : keys_(keys), linked_(linked) {}
  StoreCore(const StoreCore&) = delete;
  StoreCore& operator=(const StoreCore&) = delete;
  ~StoreCore() {
    for (uint32_t i = 0; i < STORE_SHARDS; ++i) {
      Shard* shard = table_.at(i);
      if (shard == nullptr) continue;
      for (uint32_t k = 0; k <= shard->mask; ++k) {
        if (shard->slots()[k].entry != nullptr) Entry::drop(linked_, shard->slots()[k].entry);
      }
    }
    for (const Dead& dead : dead_) Entry::drop(linked_, dead.entry);
  }

  uint64_t hash(Bytes key) const { return keys_.hash(key.data, key.n); }

  Entry* find(uint64_t key_hash, Bytes key, Bytes sub) const {
    Slot* slot = slot_of(key_hash, key, sub);
    return slot == nullptr ? nullptr : slot->entry;
  }

  void put(uint64_t key_hash, Bytes key, Bytes sub, Bytes value) {
    const uint64_t hash = hash_of(key_hash, sub);
    Slot* slot = slot_of(key_hash, key, sub);
    if (slot == nullptr) return insert(key_hash, hash, key, sub, value);
    Entry* old = slot->entry;
    if (old->born > last_frozen_ && value.n <= old->capacity && value.n * 2 >= old->capacity) {
      old->n_value = static_cast<uint32_t>(value.n);
      Entry::copy(old->bytes() + old->n_key + old->n_sub, value);
      return;
    }
    replace(key_hash, hash, old, Entry::make(linked_, key, sub, value));
  }

  bool remove(uint64_t key_hash, Bytes key, Bytes sub) {
    if (slot_of(key_hash, key, sub) == nullptr) return false;
    const uint64_t hash = hash_of(key_hash, sub);
    Shard* shard = table_.own(hash, false);
    Slot* slot = slot_of(key_hash, key, sub);  // owning may have moved it
    Entry* entry = slot->entry;
    shard->erase(static_cast<uint32_t>(slot - shard->slots()));
    unlink(key_hash, entry);
    retire(entry);
    return true;
  }

  // The first entry of a key; the others follow in its ring.
  Entry* first(uint64_t key_hash, Bytes key) const {
    Slot* slot = heads_.find(key_hash, [&](const Entry& entry) { return entry.key() == key; });
    return slot == nullptr ? nullptr : slot->entry;
  }

  // All entries of a key, by sub-key.
  void siblings(uint64_t key_hash, Bytes key, std::vector<const Entry*>& out) const {
    const size_t begin = out.size();
    Entry* head = first(key_hash, key);
    if (head == nullptr) return;
    Entry* at = head;
    do {
      out.push_back(at);
      at = at->links().next;
    } while (at != head);
    const auto less = [](const Entry* a, const Entry* b) {
      const Bytes x = a->sub(), y = b->sub();
      const int order = std::memcmp(x.data, y.data, static_cast<size_t>(std::min(x.n, y.n)));
      return order != 0 ? order < 0 : x.n < y.n;
    };
    const auto from = out.begin() + static_cast<int64_t>(begin);
    if (!std::is_sorted(from, out.end(), less)) std::sort(from, out.end(), less);
  }

  int64_t clear(uint64_t key_hash, Bytes key) {
    int64_t n = 0;
    while (Entry* entry = first(key_hash, key)) n += remove(key_hash, key, entry->sub());
    return n;
  }

  // Remove what has a time in its first 8 bytes that is not after `before`, in one shard.
  int64_t sweep(uint32_t shard, int64_t before) {
    Shard* found = table_.at(shard);
    std::vector<Entry*> old;
    for (uint32_t i = 0; found != nullptr && i <= found->mask; ++i) {
      Entry* entry = found->slots()[i].entry;
      if (entry == nullptr || entry->n_value < 8) continue;
      if (load<int64_t>(entry->value().data) <= before) old.push_back(entry);
    }
    for (Entry* entry : old) remove(hash(entry->key()), entry->key(), entry->sub());
    return static_cast<int64_t>(old.size());
  }

  std::shared_ptr<FreezeState> freeze() {
    prune();
    auto state = std::make_shared<FreezeState>();
    state->generation = last_frozen_ = generation_++;
    views_.push_back(state);
    return state;
  }

  const Shards& table() const { return table_; }
  void prefetch(uint64_t key_hash) const { table_.prefetch(key_hash); }
  int64_t size() const { return n_; }
  int64_t nbytes() const { return n_bytes_ + table_.nbytes() + (linked_ ? heads_.nbytes() : 0); }
  bool linked() const { return linked_; }

 private:
  struct Dead {
    Entry* entry;
    int64_t died;
  };

  uint64_t hash_of(uint64_t key_hash, Bytes sub) const {
    return linked_ ? step(key_hash, bytes_word(sub.data, static_cast<uint64_t>(sub.n))) : key_hash;
  }

  Slot* slot_of(uint64_t key_hash, Bytes key, Bytes sub) const {
    return table_.find(hash_of(key_hash, sub), [&](const Entry& entry) {
      return entry.key() == key && entry.sub() == sub;
    });
  }

  void insert(uint64_t key_hash, uint64_t hash, Bytes key, Bytes sub, Bytes value) {
    Shard* shard = table_.own(hash, true);
    if (linked_) heads_.own(key_hash, true);  // what can fail comes first
    Entry* entry = Entry::make(linked_, key, sub, value);
    entry->born = generation_;
    entry->group = static_cast<uint16_t>(key_hash >> 49);
    shard->place(hash, entry);
    if (linked_) link(key_hash, entry);
    ++n_;
    n_bytes_ += entry->size(linked_);
  }

  void replace(uint64_t key_hash, uint64_t hash, Entry* old, Entry* entry) {
    entry->born = generation_;
    entry->group = old->group;
    table_.own(hash, false);
    table_.find(hash, [&](const Entry& found) { return &found == old; })->entry = entry;
    if (linked_) take_place(key_hash, old, entry);
    ++n_;
    n_bytes_ += entry->size(linked_);
    retire(old);
  }

  void take_place(uint64_t key_hash, Entry* old, Entry* entry) {
    const Entry::Links links = old->links();
    entry->links() = links.next == old ? Entry::Links{entry, entry} : links;
    entry->links().previous->links().next = entry;
    entry->links().next->links().previous = entry;
    Slot* head = heads_.find(key_hash, [&](const Entry& found) { return &found == old; });
    if (head != nullptr) head->entry = entry;
  }

  void link(uint64_t key_hash, Entry* entry) {
    Entry* head = first(key_hash, entry->key());
    if (head == nullptr) {
      entry->links() = {entry, entry};
      heads_.of(key_hash)->place(key_hash, entry);
      return;
    }
    Entry* last = head->links().previous;
    entry->links() = {last, head};
    last->links().next = entry;
    head->links().previous = entry;
  }

  void unlink(uint64_t key_hash, Entry* entry) {
    if (!linked_) return;
    Entry::Links links = entry->links();
    links.previous->links().next = links.next;
    links.next->links().previous = links.previous;
    Slot* slot = heads_.find(key_hash, [&](const Entry& found) { return &found == entry; });
    if (slot == nullptr) return;
    if (links.next != entry) {
      slot->entry = links.next;
      return;
    }
    Shard* shard = heads_.of(key_hash);
    shard->erase(static_cast<uint32_t>(slot - shard->slots()));
  }

  // It is in the table no more: freed now, or once no view can see it.
  void retire(Entry* entry) {
    --n_;
    if (!views_.empty()) prune();
    if (entry->born > last_frozen_) return drop(entry);
    dead_.push_back({entry, generation_});
  }

  void prune() {
    const size_t before = views_.size();
    std::erase_if(views_, [](const auto& view) {
      return view->released.load(std::memory_order_acquire);
    });
    if (views_.size() == before) return;
    last_frozen_ = views_.empty() ? -1 : views_.back()->generation;
    std::erase_if(dead_, [this](const Dead& dead) {
      for (const auto& view : views_) {
        if (dead.entry->born <= view->generation && view->generation < dead.died) return false;
      }
      drop(dead.entry);
      return true;
    });
  }

  void drop(Entry* entry) {
    n_bytes_ -= entry->size(linked_);
    Entry::drop(linked_, entry);
  }

  RowTypes keys_;
  bool linked_;
  Shards table_;
  Shards heads_;  // of the ring of each key, where there are sub-keys
  int64_t generation_ = 0, last_frozen_ = -1;
  int64_t n_ = 0, n_bytes_ = 0;
  std::vector<std::shared_ptr<FreezeState>> views_;  // oldest first
  std::vector<Dead> dead_;
};

}  // namespace fabric
