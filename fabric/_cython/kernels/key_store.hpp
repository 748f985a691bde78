// Keys by group id: rows of words that stay, and their way out as Arrow columns.
//
// One job: `KeyStore` keeps, compares, hands out and forgets the keys of groups. Which group a key
// has is group_table.cpp's. Words lie by id; the bytes of a group's strings lie behind one pointer.
#pragma once
#include <limits>

#include "growing.hpp"
#include "key_words.hpp"
#include "memory.hpp"

namespace fabric {

class KeyStore {
 public:
  explicit KeyStore(KeyRows rows) : rows_(std::move(rows)) {}
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;
  ~KeyStore() {
    for (int64_t id = 0; rows_.n_tails > 0 && id < tails_.size(); ++id) std::free(tails_[id]);
  }

  const KeyRows& rows() const { return rows_; }
  const uint8_t* tail(int64_t id) const { return tails_[id]; }
  const uint64_t* row(int64_t id) const { return words_.data() + id * rows_.n_words; }
  uint64_t word(int64_t id) const { return words_[id]; }

  void fetch(int64_t id) const {
    __builtin_prefetch(words_.data() + id * rows_.n_words);
    if (rows_.n_tails > 0) __builtin_prefetch(tails_.data() + id);
  }

  // Whether a group has this key; `tails` are the bytes of its strings.
  FABRIC_INLINE bool same(int64_t id, const uint64_t* words, const uint8_t* const* tails) const {
    const uint64_t* known = row(id);
    for (int64_t i = 0; i < rows_.n_words; ++i) {
      if (known[i] != words[i]) return false;
    }
    return rows_.n_tails == 0 || same_tail(id, words, tails);
  }

  // Keep a key; throws std::bad_alloc and then has kept nothing.
  void keep(int64_t id, const uint64_t* words, const uint8_t* const* tails) {
    words_.reserve((id + 1) * rows_.n_words);
    if (rows_.n_tails > 0) keep_tail(id, words, tails);
    std::memcpy(words_.data() + id * rows_.n_words, words,
                static_cast<size_t>(rows_.n_words) * sizeof(uint64_t));
  }

  void forget(int64_t id) {
    if (rows_.n_tails == 0) return;
    tail_bytes_ -= rows_.tail_size(row(id));
    std::free(tails_[id]);
    tails_[id] = nullptr;
  }

  int64_t n_bytes() const {
    return words_.n_bytes() + tails_.n_bytes() + static_cast<int64_t>(tail_bytes_);
  }

  // The keys of some groups as a struct of all fields, null for id -1; `null_id` is the group of
  // null where a row has no null words.
  void put_out(const int32_t* ids, int64_t n, int64_t null_id, ArrowArray& out) const {
    build_array(system_allocator(), out, [&](Holder& holder) {
      holder.init(out, n, 1, static_cast<int64_t>(rows_.fields.size()));
      for (size_t i = 0; i < rows_.fields.size(); ++i) {
        column(holder, i, ids, n, null_id, *out.children[i]);
      }
    });
  }

 private:
  bool same_tail(int64_t id, const uint64_t* words, const uint8_t* const* tails) const {
    const uint8_t* known = tails_[id];
    for (const KeyField& field : rows_.fields) {
      if (!field.in_tail) continue;
      const uint64_t size = words[field.word];
      if (size > 0 && std::memcmp(known, *tails, size) != 0) return false;
      known += size;
      ++tails;
    }
    return true;
  }

  void keep_tail(int64_t id, const uint64_t* words, const uint8_t* const* tails) {
    tails_.reserve(id + 1);
    const uint64_t size = rows_.tail_size(words);
    uint8_t* made = static_cast<uint8_t*>(std::malloc(size > 0 ? size : 1));
    if (made == nullptr) throw std::bad_alloc();
    tails_[id] = made;
    tail_bytes_ += size;
    for (const KeyField& field : rows_.fields) {
      if (!field.in_tail) continue;
      if (words[field.word] > 0) std::memcpy(made, *tails, words[field.word]);
      made += words[field.word];
      ++tails;
    }
  }

  bool is_null(size_t field, int64_t id, int64_t null_id) const {
    if (id < 0) return true;
    return rows_.is_single() ? id == null_id : KeyRows::is_null(row(id), field);
  }

  void column(Holder& holder, size_t index, const int32_t* ids, int64_t n, int64_t null_id,
              ArrowArray& out) const {
    const KeyField& field = rows_.fields[index];
    if (field.type.layout == Layout::null) {
      holder.init(out, n, 0, 0);
      out.null_count = n;
      return;
    }
    holder.init(out, n, field.in_tail ? 3 : 2, 0);
    validity(holder, index, ids, n, null_id, out);
    if (field.in_tail && field.is_large) return strings<int64_t>(holder, field, ids, n, out);
    if (field.in_tail) return strings<int32_t>(holder, field, ids, n, out);
    if (field.type.layout == Layout::boolean) return booleans(holder, field, ids, n, out);
    const size_t width = static_cast<size_t>(field.type.width);
    uint8_t* made = holder.buffer<uint8_t>(n * field.type.width);
    out.buffers[1] = made;
    for (int64_t i = 0; i < n; ++i, made += width) {
      if (ids[i] < 0) std::memset(made, 0, width);
      else std::memcpy(made, row(ids[i]) + field.word, width);
    }
  }

  void validity(Holder& holder, size_t field, const int32_t* ids, int64_t n, int64_t null_id,
                ArrowArray& out) const {
    for (int64_t i = 0; i < n; ++i) out.null_count += is_null(field, ids[i], null_id);
    if (out.null_count == 0) return;
    const int64_t n_bytes = (n + 7) / 8;
    uint8_t* bits = holder.buffer<uint8_t>(n_bytes);
    std::memset(bits, 0, static_cast<size_t>(n_bytes));
    for (int64_t i = 0; i < n; ++i) {
      bits[i >> 3] |= static_cast<uint8_t>(!is_null(field, ids[i], null_id) << (i & 7));
    }
    out.buffers[0] = bits;
  }

  void booleans(Holder& holder, const KeyField& field, const int32_t* ids, int64_t n,
                ArrowArray& out) const {
    const int64_t n_bytes = (n + 7) / 8;
    uint8_t* bits = holder.buffer<uint8_t>(n_bytes);
    std::memset(bits, 0, static_cast<size_t>(n_bytes));
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t word = ids[i] < 0 ? 0 : row(ids[i])[field.word];
      bits[i >> 3] |= static_cast<uint8_t>((word & 1) << (i & 7));
    }
    out.buffers[1] = bits;
  }

  template <class Offset>
  void strings(Holder& holder, const KeyField& field, const int32_t* ids, int64_t n,
               ArrowArray& out) const {
    Offset* offsets = holder.buffer<Offset>(n + 1);
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      offsets[i] = static_cast<Offset>(sum);
      sum += ids[i] < 0 ? 0 : row(ids[i])[field.word];
      if (sum > static_cast<uint64_t>(std::numeric_limits<Offset>::max())) {
        throw std::overflow_error("offsets of keys do not fit 32 bits; hand out fewer at a time");
      }
    }
    offsets[n] = static_cast<Offset>(sum);
    uint8_t* made = holder.buffer<uint8_t>(static_cast<int64_t>(sum));
    for (int64_t i = 0; i < n; ++i) {
      if (offsets[i] == offsets[i + 1]) continue;
      const uint64_t* words = row(ids[i]);
      std::memcpy(made + offsets[i], tails_[ids[i]] + before(field, words), words[field.word]);
    }
    out.buffers[1] = offsets;
    out.buffers[2] = made;
  }

  uint64_t before(const KeyField& field, const uint64_t* words) const {  // bytes of earlier strings
    uint64_t size = 0;
    for (const KeyField& other : rows_.fields) {
      if (&other == &field) break;
      size += other.in_tail ? words[other.word] : 0;
    }
    return size;
  }

  KeyRows rows_;
  Growing<uint64_t> words_;
  Growing<uint8_t*> tails_;
  uint64_t tail_bytes_ = 0;
};

}  // namespace fabric
