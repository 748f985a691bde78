// From keys to dense group ids: the loops under group_table.pyx.
//
// One job: `GroupTable` finds, makes and removes groups. Slots are slots.hpp's, keys as words are
// key_words.hpp's, keeping them key_store.hpp's. A single key of one word is its own tag, for the
// hash of a word is a bijection; other keys are compared in full.
#pragma once
#include <limits>
#include <vector>

#include "hash_column.hpp"
#include "key_store.hpp"
#include "slots.hpp"

namespace fabric {

constexpr int64_t GROUPS_MAX = std::numeric_limits<int32_t>::max();

class GroupTable {
 public:
  explicit GroupTable(const std::vector<Type>& types) : keys_(KeyRows(types)) {}

  // The group of each row; rows of unknown keys get new ones. Arrays are of the table's types, in
  // any layout, and of one length.
  void upsert(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
              int32_t* ids) {
    number<true>(types, arrays, cpu, ids);
  }

  // The group of each row; -1 where the key is unknown.
  void find(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
            int32_t* ids) {
    number<false>(types, arrays, cpu, ids);
  }

  bool is_group(int64_t id) const { return id >= 0 && id < n_ids_ && alive_[id]; }

  // Forget groups; throws std::out_of_range at the first that is none, before anything changes.
  void remove(const int32_t* ids, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (!is_group(ids[i]) || alive_[ids[i]] == GOING) {
        for (int64_t j = 0; j < i; ++j) alive_[ids[j]] = ALIVE;
        throw std::out_of_range("there is no group " + std::to_string(ids[i]) +
                                ", or it is named twice");
      }
      alive_[ids[i]] = GOING;
    }
    freed_.reserve(freed_.size() + static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) remove_one(ids[i]);
  }

  // Let freed ids be given to new groups, those freed first before the others.
  void compact() {
    const auto used = spare_.begin() + static_cast<int64_t>(n_spare_used_);
    freed_.insert(freed_.begin(), used, spare_.end());
    spare_.swap(freed_);
    freed_.clear();
    n_spare_used_ = 0;
  }

  // Ids of all groups, rising; `ids` has room for `n_groups`.
  void list(int32_t* ids) const {
    for (int64_t id = 0; id < n_ids_; ++id) {
      if (alive_[id]) *ids++ = static_cast<int32_t>(id);
    }
  }

  void keys(const int32_t* ids, int64_t n, ArrowArray& out) const {
    keys_.put_out(ids, n, null_id_, out);
  }

  int64_t n_groups() const { return n_groups_; }
  int64_t n_ids() const { return n_ids_; }
  int64_t n_bytes() const {
    return slots_.n_bytes() + keys_.n_bytes() + tags_.n_bytes() + alive_.n_bytes() +
           static_cast<int64_t>((freed_.capacity() + spare_.capacity()) * sizeof(int32_t));
  }

 private:
  static constexpr uint8_t ALIVE = 1, GOING = 2;

  struct Block {  // HASH_BLOCK rows of a batch as words, with their tags
    std::vector<uint64_t> words, nulls, tags;
    std::vector<const uint8_t*> tails;
    std::vector<Bucket*> homes;
  };

  template <bool INSERT>
  void number(const std::vector<Type>& types, const std::vector<ArrowArray*>& arrays, int cpu,
              int32_t* ids) {
    std::vector<KeyReader> readers;
    for (size_t i = 0; i < arrays.size(); ++i) readers.emplace_back(types[i], *arrays[i]);
    const int64_t n_rows = arrays[0]->length;
    block_.tags.resize(HASH_BLOCK + SLOTS_AHEAD);
    block_.homes.resize(HASH_BLOCK + SLOTS_AHEAD);
    if (keys_.rows().is_single()) return single<INSERT>(readers[0], n_rows, cpu, ids);
    std::vector<Column> columns;
    for (size_t i = 0; i < arrays.size(); ++i) columns.emplace_back(types[i], *arrays[i], cpu);
    several<INSERT>(readers, columns, n_rows, cpu, ids);
  }

  template <bool INSERT>
  void single(const KeyReader& reader, int64_t n_rows, int cpu, int32_t* ids) {
    block_.words.resize(HASH_BLOCK);
    block_.nulls.resize(HASH_BLOCK);
    const uint8_t* plain = reader.plain();
    const bool nulls = reader.may_be_null();
    for (int64_t row = 0; row < n_rows; row += HASH_BLOCK) {
      const int64_t n = std::min(HASH_BLOCK, n_rows - row);
      const auto* words = reinterpret_cast<const Raw<uint64_t>*>(plain + row * 8);
      if (plain == nullptr) {
        if (nulls) std::fill_n(block_.nulls.data(), n, 0);
        reader.read(row, n, block_.words.data(), 1, nullptr, 0, block_.nulls.data(), 0);
        words = reinterpret_cast<const Raw<uint64_t>*>(block_.words.data());
      }
      by_cpu<StepFirst>(cpu, block_.tags.data(), words, n, start_);
      if (nulls) number_words<INSERT, true>(words, n, ids + row);
      else number_words<INSERT, false>(words, n, ids + row);
    }
  }

  void fetch_homes(int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      block_.homes[static_cast<size_t>(i)] = slots_.home(block_.tags[static_cast<size_t>(i)]);
      __builtin_prefetch(block_.homes[static_cast<size_t>(i)]);
    }
  }

  template <bool INSERT, bool NULLS>
  void number_words(const Raw<uint64_t>* words, int64_t n, int32_t* ids) {
    const uint64_t* tags = block_.tags.data();
    Bucket** homes = block_.homes.data();
    fetch_homes(0, std::min(n, SLOTS_AHEAD));
    for (int64_t i = 0; i < n; ++i) {
      if (i + SLOTS_AHEAD < n) {
        homes[i + SLOTS_AHEAD] = slots_.home(tags[i + SLOTS_AHEAD]);
        __builtin_prefetch(homes[i + SLOTS_AHEAD]);
      }
      if (NULLS && block_.nulls[static_cast<size_t>(i)] != 0) {
        if (INSERT && null_id_ < 0) null_id_ = add(0, nullptr, nullptr);
        ids[i] = null_id_;
        continue;
      }
      uint32_t found = slots_.first_of(homes[i], tags[i]);
      if (INSERT && found == 0) {
        const uint64_t word = words[i];
        found = static_cast<uint32_t>(add(tags[i], &word, nullptr)) + 1;
        settle(i + 1, n);
      }
      ids[i] = static_cast<int32_t>(found) - 1;
    }
  }

  // Buckets that were looked up before the table changed are looked up again.
  void settle(int64_t from, int64_t n) {
    if (slots_.version() == version_) return;
    version_ = slots_.version();
    fetch_homes(from, std::min(n, from + SLOTS_AHEAD));
  }

  template <bool INSERT>
  void several(const std::vector<KeyReader>& readers, const std::vector<Column>& columns,
               int64_t n_rows, int cpu, int32_t* ids) {
    const KeyRows& rows = keys_.rows();
    block_.words.resize(static_cast<size_t>(HASH_BLOCK * rows.n_words));
    block_.tails.resize(static_cast<size_t>(HASH_BLOCK * rows.n_tails));
    for (int64_t row = 0; row < n_rows; row += HASH_BLOCK) {
      const int64_t n = std::min(HASH_BLOCK, n_rows - row);
      if (rows.n_words > 0) read(readers, row, n);
      hash_block(columns, row, n, start_, cpu, block_.tags.data());
      number_rows<INSERT>(n, ids + row);
    }
  }

  void read(const std::vector<KeyReader>& readers, int64_t row, int64_t n) {
    const KeyRows& rows = keys_.rows();
    uint64_t* words = block_.words.data();
    for (int64_t i = 0; i < n; ++i) {
      for (int32_t j = 0; j < rows.n_null_words; ++j) words[i * rows.n_words + j] = 0;
    }
    const uint8_t** tails = block_.tails.data();
    for (size_t i = 0; i < readers.size(); ++i) {
      const KeyField& field = rows.fields[i];
      readers[i].read(row, n, words + field.word, rows.n_words, tails,
                      field.in_tail ? rows.n_tails : 0, words + i / 64, static_cast<int>(i % 64));
      tails += field.in_tail;
    }
  }

  template <bool INSERT>
  void number_rows(int64_t n, int32_t* ids) {
    const KeyRows& rows = keys_.rows();
    const uint64_t* tags = block_.tags.data();
    fetch_homes(0, std::min(n, SLOTS_AHEAD));
    for (int64_t i = 0; i < n; ++i) {
      if (i + SLOTS_AHEAD < n) fetch_homes(i + SLOTS_AHEAD, i + SLOTS_AHEAD + 1);
      if (i + SLOTS_AHEAD / 2 < n) fetch_row(i + SLOTS_AHEAD / 2);
      const uint64_t* words = block_.words.data() + i * rows.n_words;
      const uint8_t* const* tails = block_.tails.data() + i * rows.n_tails;
      const Slots::Place place = slots_.find(
          block_.homes[static_cast<size_t>(i)], tags[i],
          [&](uint32_t first) FABRIC_LAMBDA { return keys_.same(first - 1, words, tails); });
      if (place.slot >= 0) {
        ids[i] = static_cast<int32_t>(place.bucket->first[place.slot]) - 1;
      } else if (INSERT) {
        ids[i] = add(tags[i], words, tails);
        settle(i + 1, n);
      } else {
        ids[i] = -1;
      }
    }
  }

  void fetch_row(int64_t i) const {
    const uint32_t first = slots_.first_of(block_.homes[static_cast<size_t>(i)],
                                           block_.tags[static_cast<size_t>(i)]);
    if (first != 0) keys_.fetch(first - 1);
  }

  // A new group; `words` is nullptr for the null of a single key, which has no slot.
  __attribute__((noinline)) int32_t add(uint64_t tag, const uint64_t* words,
                                        const uint8_t* const* tails) {
    const bool spare = n_spare_used_ < spare_.size();
    if (!spare && n_ids_ >= GROUPS_MAX) {
      throw std::overflow_error("a group table holds at most 2147483647 groups");
    }
    const int32_t id = spare ? spare_[n_spare_used_] : static_cast<int32_t>(n_ids_);
    const uint64_t zero = 0;
    alive_.reserve(int64_t{id} + 1);
    if (!keys_.rows().is_single()) {
      tags_.reserve(int64_t{id} + 1);
      tags_[id] = tag;
    }
    keys_.keep(id, words == nullptr ? &zero : words, tails);
    if (words != nullptr) put(tag, id);
    alive_[id] = ALIVE;
    ++n_groups_;
    if (spare) ++n_spare_used_;
    else ++n_ids_;
    return id;
  }

  void put(uint64_t tag, int32_t id) {
    try {
      slots_.put(tag, static_cast<uint32_t>(id) + 1, 0);
    } catch (...) {
      keys_.forget(id);
      throw;
    }
  }

  void remove_one(int32_t id) {
    if (id == null_id_) {
      null_id_ = -1;
    } else {
      const uint64_t tag = keys_.rows().is_single() ? finish(start_ * GOLDEN + keys_.word(id))
                                                    : tags_[id];
      const uint32_t first = static_cast<uint32_t>(id) + 1;
      slots_.erase(slots_.find(slots_.home(tag), tag,
                               [first](uint32_t other) { return other == first; }));
    }
    keys_.forget(id);
    alive_[id] = 0;
    --n_groups_;
    freed_.push_back(id);
  }

  const uint64_t start_ = start_of(0);
  Slots slots_;
  KeyStore keys_;
  Growing<uint64_t> tags_;  // by id, where the words are no tags
  Growing<uint8_t> alive_;
  std::vector<int32_t> freed_, spare_;
  size_t n_spare_used_ = 0;
  int32_t null_id_ = -1;
  int64_t n_groups_ = 0, n_ids_ = 0;
  uint64_t version_ = 0;
  Block block_;
};

}  // namespace fabric
