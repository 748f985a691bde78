// Where the entries of a store lie: shards of slots that a frozen view may share.
//
// One job: make and drop entries, find and place them. What may be changed when is the store's;
// value_store.cpp alone includes this.
#pragma once
#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "value_store.hpp"

namespace fabric {

constexpr int STORE_SHARD_BITS = 12;

inline uint32_t store_size(int64_t n) {
  if (n >= INT64_C(0xFFFFFFFF)) throw std::overflow_error("a key or value has more than 4 GiB");
  return static_cast<uint32_t>(n);
}

inline void copy_into(uint8_t* to, Bytes from) {
  if (from.n > 0) std::memcpy(to, from.data, static_cast<size_t>(from.n));
}

inline Entry* make_entry(bool linked, Bytes key, Bytes sub, Bytes value) {
  const size_t before = linked ? sizeof(Entry::Links) : 0;
  const uint32_t n_key = store_size(key.n), n_sub = store_size(sub.n);
  const uint32_t n_value = store_size(value.n);
  const size_t n = before + sizeof(Entry) + n_key + n_sub + n_value;
  auto* room = static_cast<uint8_t*>(std::malloc(n));
  if (room == nullptr) throw std::bad_alloc();
  auto* entry = reinterpret_cast<Entry*>(room + before);
  *entry = Entry{0, n_key, n_sub, n_value, n_value, 0};
  copy_into(entry->bytes(), key);
  copy_into(entry->bytes() + n_key, sub);
  copy_into(entry->bytes() + n_key + n_sub, value);
  return entry;
}

inline void drop_entry(bool linked, Entry* entry) {
  std::free(reinterpret_cast<uint8_t*>(entry) - (linked ? sizeof(Entry::Links) : 0));
}

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

  // Inlined always: the compiler drops calls of a function that does nothing but prefetch.
  __attribute__((always_inline)) void prefetch(uint64_t hash) const {
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

}  // namespace fabric
