// The shards of a store, what freezing shares of them, and the entries.
//
// One job: the bodies of value_store.hpp. The table is cut into shards by the low bits of the hash.
// Freezing takes a reference to each shard; the owner copies a shard's slots before it changes one
// that is shared. Entries never change while a frozen view can see them: they are replaced, and the
// old ones freed once no view is left that saw them. Growing moves one shard, so no call stalls
// long.
#include "value_store.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "rows.hpp"
#include "shards.hpp"

namespace fabric {

// What a frozen view and its store both know.
struct FreezeState {
  int64_t generation;
  std::atomic<bool> released{false};
};

// The entries and the table; kept alive by its store and by frozen views.
class StoreCore::Table {
 public:
  Table(const RowTypes& keys, bool linked) : keys_(keys), linked_(linked) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    for (uint32_t i = 0; i < STORE_SHARDS; ++i) {
      Shard* shard = table_.at(i);
      if (shard == nullptr) continue;
      for (uint32_t k = 0; k <= shard->mask; ++k) {
        if (shard->slots()[k].entry != nullptr) drop_entry(linked_, shard->slots()[k].entry);
      }
    }
    for (const Dead& dead : dead_) drop_entry(linked_, dead.entry);
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
      copy_into(old->bytes() + old->n_key + old->n_sub, value);
      return;
    }
    replace(key_hash, hash, old, make_entry(linked_, key, sub, value));
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

  int64_t sweep(uint32_t shard, int64_t before) {
    Shard* found = table_.at(shard);
    std::vector<Entry*> old;
    for (uint32_t i = 0; found != nullptr && i <= found->mask; ++i) {
      Entry* entry = found->slots()[i].entry;
      if (entry == nullptr || entry->n_value < 8) continue;
      int64_t time;
      std::memcpy(&time, entry->value().data, sizeof time);
      if (time <= before) old.push_back(entry);
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
  int64_t size() const { return n_; }
  int64_t nbytes() const { return n_bytes_ + table_.nbytes() + (linked_ ? heads_.nbytes() : 0); }

  // For many keys: their hashes; fetch a slot before it is needed (of sub-keys the hash is another
  // one); the sub-key of one.
  std::vector<uint64_t> hash_all(const ByteRows& keys) const {
    std::vector<uint64_t> hashes(static_cast<size_t>(keys.n));
    keys_.hashes(keys.data, keys.offsets, keys.n, hashes.data());
    return hashes;
  }
  __attribute__((always_inline)) void ahead(const std::vector<uint64_t>& hashes, size_t i) const {
    if (!linked_ && i + AHEAD < hashes.size()) table_.prefetch(hashes[i + AHEAD]);
  }
  Bytes sub_at(const ByteRows& subs, size_t i) const { return linked_ ? subs.at(i) : Bytes{}; }

 private:
  static constexpr size_t AHEAD = 16;  // how many keys ahead slots are fetched

  struct Dead {
    Entry* entry;
    int64_t died;
  };

  uint64_t hash_of(uint64_t key_hash, Bytes sub) const {
    return linked_ ? hash_with(key_hash, sub.data, sub.n) : key_hash;
  }

  Slot* slot_of(uint64_t key_hash, Bytes key, Bytes sub) const {
    return table_.find(hash_of(key_hash, sub), [&](const Entry& entry) {
      return entry.key() == key && entry.sub() == sub;
    });
  }

  void insert(uint64_t key_hash, uint64_t hash, Bytes key, Bytes sub, Bytes value) {
    Shard* shard = table_.own(hash, true);
    if (linked_) heads_.own(key_hash, true);  // what can fail comes first
    Entry* entry = make_entry(linked_, key, sub, value);
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
    drop_entry(linked_, entry);
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

class Frozen::View {
 public:
  View(std::shared_ptr<StoreCore::Table> core, std::shared_ptr<FreezeState> state,
       const Shards& shards)
      : core_(std::move(core)), state_(std::move(state)), shards_(shards) {}
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { state_->released.store(true, std::memory_order_release); }

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
  std::shared_ptr<StoreCore::Table> core_;  // owns the entries; outlives the shards below it
  std::shared_ptr<FreezeState> state_;
  Shards shards_;
};

// --- what others see ----------------------------------------------------------------------------

Frozen::Frozen(std::unique_ptr<View> view) : view_(std::move(view)) {}
Frozen::~Frozen() = default;

uint32_t Frozen::collect(uint32_t shard, uint32_t first_group, uint32_t end_group,
                         int64_t n_bytes, std::vector<const Entry*>& out) const {
  return view_->collect(shard, first_group, end_group, n_bytes, out);
}

StoreCore::StoreCore(const RowTypes& keys, bool linked)
    : table_(std::make_shared<Table>(keys, linked)) {}
StoreCore::~StoreCore() = default;

const Entry* StoreCore::find(Bytes key, Bytes sub) const {
  return table_->find(table_->hash(key), key, sub);
}
void StoreCore::put(Bytes key, Bytes sub, Bytes value) {
  table_->put(table_->hash(key), key, sub, value);
}
bool StoreCore::remove(Bytes key, Bytes sub) { return table_->remove(table_->hash(key), key, sub); }
void StoreCore::siblings(Bytes key, std::vector<const Entry*>& out) const {
  table_->siblings(table_->hash(key), key, out);
}
int64_t StoreCore::clear(Bytes key) { return table_->clear(table_->hash(key), key); }

void StoreCore::find_many(const ByteRows& keys, const ByteRows& subs,
                          std::vector<const Entry*>& out) const {
  Table& table = *table_;
  const std::vector<uint64_t> hashes = table.hash_all(keys);
  out.resize(hashes.size());
  for (size_t i = 0; i < hashes.size(); ++i) {
    table.ahead(hashes, i);
    out[i] = table.find(hashes[i], keys.at(i), table.sub_at(subs, i));
  }
}

void StoreCore::put_many(const ByteRows& keys, const ByteRows& subs, const ByteRows& values) {
  Table& table = *table_;
  const std::vector<uint64_t> hashes = table.hash_all(keys);
  for (size_t i = 0; i < hashes.size(); ++i) {
    table.ahead(hashes, i);
    table.put(hashes[i], keys.at(i), table.sub_at(subs, i), values.at(i));
  }
}

int64_t StoreCore::remove_many(const ByteRows& keys, const ByteRows& subs) {
  Table& table = *table_;
  const std::vector<uint64_t> hashes = table.hash_all(keys);
  int64_t n = 0;
  for (size_t i = 0; i < hashes.size(); ++i) {
    n += table.remove(hashes[i], keys.at(i), table.sub_at(subs, i));
  }
  return n;
}

void StoreCore::siblings_many(const ByteRows& keys, int64_t* counts,
                              std::vector<const Entry*>& out) const {
  Table& table = *table_;
  const std::vector<uint64_t> hashes = table.hash_all(keys);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const size_t before = out.size();
    table.siblings(hashes[i], keys.at(i), out);
    counts[i] = static_cast<int64_t>(out.size() - before);
  }
}

int64_t StoreCore::clear_many(const ByteRows& keys) {
  Table& table = *table_;
  const std::vector<uint64_t> hashes = table.hash_all(keys);
  int64_t n = 0;
  for (size_t i = 0; i < hashes.size(); ++i) n += table.clear(hashes[i], keys.at(i));
  return n;
}

int64_t StoreCore::sweep(uint32_t shard, int64_t before) { return table_->sweep(shard, before); }

std::shared_ptr<Frozen> StoreCore::freeze() {
  std::shared_ptr<FreezeState> state = table_->freeze();
  return std::make_shared<Frozen>(
      std::make_unique<Frozen::View>(table_, std::move(state), table_->table()));
}

int64_t StoreCore::size() const { return table_->size(); }
int64_t StoreCore::nbytes() const { return table_->nbytes(); }

}  // namespace fabric
