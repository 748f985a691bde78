// From keys to dense group ids.
//
// One job: find, make and remove groups. Slots are slots.hpp's, keys as words and tags are
// key_block.hpp's, keeping them key_store.hpp's. A slot's value is the group's id + 1.
#include <limits>

#include "key_block.hpp"
#include "key_store.hpp"
#include "tables.hpp"

namespace fabric {
namespace {

constexpr int64_t GROUPS_MAX = std::numeric_limits<int32_t>::max();

class Groups final : public GroupTable {
 public:
  explicit Groups(const Types& types) : keys_(KeyRows(types)), block_(keys_.rows()) {}

  void upsert(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) override {
    number<true>(types, arrays, cpu, ids);
  }

  void find(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) override {
    number<false>(types, arrays, cpu, ids);
  }

  int64_t first_stranger(const int32_t* ids, int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) {
      if (!is_group(ids[i])) return i;
    }
    return n;
  }

  void remove(const int32_t* ids, int64_t n) override {
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

  void compact() override {
    const auto used = spare_.begin() + static_cast<int64_t>(n_spare_used_);
    freed_.insert(freed_.begin(), used, spare_.end());
    spare_.swap(freed_);
    freed_.clear();
    n_spare_used_ = 0;
  }

  void list(int32_t* ids) const override {
    for (int64_t id = 0; id < n_ids_; ++id) {
      if (alive_[id]) *ids++ = static_cast<int32_t>(id);
    }
  }

  void keys(const int32_t* ids, int64_t n, ArrowArray& out) const override {
    keys_.put_out(ids, n, null_id_, out);
  }

  int64_t n_groups() const override { return n_groups_; }
  int64_t n_ids() const override { return n_ids_; }
  int64_t n_bytes() const override {
    return slots_.n_bytes() + keys_.n_bytes() + tags_.n_bytes() + alive_.n_bytes() +
           static_cast<int64_t>((freed_.capacity() + spare_.capacity()) * sizeof(int32_t));
  }

 private:
  static constexpr uint8_t ALIVE = 1, GOING = 2;

  bool is_group(int64_t id) const { return id >= 0 && id < n_ids_ && alive_[id]; }

  template <bool INSERT>
  void number(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) {
    const bool single = keys_.rows().is_single();
    block_.each(types, arrays, 0, cpu, [&](int64_t row, int64_t n) {
      block_.look_up(slots_, n);
      if (!single) number_rows<INSERT>(n, ids + row);
      else if (block_.may_be_null()) number_words<INSERT, true>(n, ids + row);
      else number_words<INSERT, false>(n, ids + row);
      return true;
    });
  }

  template <bool INSERT, bool NULLS>
  void number_words(int64_t n, int32_t* ids) {
    for (int64_t i = 0; i < n; ++i) {
      if (NULLS && block_.single_is_null(i)) {
        if (INSERT && null_id_ < 0) null_id_ = add(0, nullptr, nullptr);
        ids[i] = null_id_;
        continue;
      }
      ids[i] = static_cast<int32_t>(block_.value(i)) - 1;
      if (INSERT && ids[i] < 0) {
        const uint64_t word = block_.single(i);
        ids[i] = find_or_add(block_.tag(i), &word, nullptr, [](uint64_t) { return true; });
      }
    }
  }

  template <bool INSERT>
  void number_rows(int64_t n, int32_t* ids) {
    for (int64_t i = 0; i < n; ++i) {
      if (block_.value(i) != 0) keys_.fetch(static_cast<int64_t>(block_.value(i)) - 1);
    }
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t first = block_.value(i);
      const uint64_t* words = block_.words(i);
      const uint8_t* const* tails = block_.tails(i);
      const auto same = [&](uint64_t value) FABRIC_LAMBDA {
        return keys_.same(static_cast<int64_t>(value) - 1, words, tails);
      };
      if (first != 0 && same(first)) ids[i] = static_cast<int32_t>(first) - 1;
      else if (INSERT) ids[i] = find_or_add(block_.tag(i), words, tails, same);
      else ids[i] = first == 0 ? -1 : id_of(block_.tag(i), same);
    }
  }

  // The id of the slot for which `same(value)` holds, -1 when there is none.
  template <class Same>
  int32_t id_of(uint64_t tag, Same same) const {
    const Slots::Place place = slots_.find(slots_.home(tag), tag, same);
    return place.slot < 0 ? -1 : static_cast<int32_t>(place.value()) - 1;
  }

  // For a key that was not there before its block: an earlier row may have made its group.
  template <class Same>
  int32_t find_or_add(uint64_t tag, const uint64_t* words, const uint8_t* const* tails, Same same) {
    const int32_t id = id_of(tag, same);
    return id < 0 ? add(tag, words, tails) : id;
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
      slots_.put(tag, static_cast<uint64_t>(id) + 1);
    } catch (...) {
      keys_.forget(id);
      throw;
    }
  }

  void remove_one(int32_t id) {
    if (id == null_id_) {
      null_id_ = -1;
    } else {
      const uint64_t tag = keys_.rows().is_single() ? block_.tag_of(keys_.word(id)) : tags_[id];
      const uint64_t value = static_cast<uint64_t>(id) + 1;
      slots_.erase(slots_.find(slots_.home(tag), tag,
                               [value](uint64_t other) { return other == value; }));
    }
    keys_.forget(id);
    alive_[id] = 0;
    --n_groups_;
    freed_.push_back(id);
  }

  KeyStore keys_;
  Slots slots_;
  Growing<uint64_t> tags_;  // by id, where the words are no tags
  Growing<uint8_t> alive_;
  std::vector<int32_t> freed_, spare_;
  size_t n_spare_used_ = 0;
  int32_t null_id_ = -1;
  int64_t n_groups_ = 0, n_ids_ = 0;
  KeyBlock block_;
};

}  // namespace

std::unique_ptr<GroupTable> make_group_table(const Types& types) {
  return std::make_unique<Groups>(types);
}

}  // namespace fabric
