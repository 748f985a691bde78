// Key columns a block of rows at a time: words, tags, and what a table has for them.
//
// One job: what tables do before they look anything up. A single key of one word is its own tag,
// for the hash of a word is a bijection; of other keys the tag is the hash of the row.
#pragma once
#include <vector>

#include "hash.hpp"
#include "key_words.hpp"
#include "slots.hpp"
#include "tables.hpp"

namespace fabric {

static_assert(HASH_BLOCK <= LOOKED_UP_MAX);

class KeyBlock {
 public:
  // Of a table whose keys lie as `rows` says.
  explicit KeyBlock(const KeyRows& rows)
      : rows_(rows), tags_(HASH_BLOCK), values_(HASH_BLOCK),
        words_(static_cast<size_t>(HASH_BLOCK * rows.n_words)),
        nulls_(rows.is_single() ? HASH_BLOCK : 0),
        tails_(static_cast<size_t>(HASH_BLOCK * rows.n_tails)) {}

  // `work(row, n)` for each block of rows from `begin` on, until it returns false.
  template <class Work>
  void each(const Types& types, const Arrays& arrays, int64_t begin, int cpu, Work work) {
    std::vector<KeyReader> readers;
    std::vector<Column> columns;
    for (size_t i = 0; i < arrays.size(); ++i) {
      readers.emplace_back(types[i], *arrays[i]);
      if (!rows_.is_single()) columns.emplace_back(types[i], *arrays[i], cpu);
    }
    plain_ = rows_.is_single() ? readers[0].plain() : nullptr;
    may_be_null_ = !rows_.is_single() || readers[0].may_be_null();
    cpu_ = cpu;
    const int64_t n_rows = arrays[0]->length;
    for (int64_t row = begin; row < n_rows; row += HASH_BLOCK) {
      const int64_t n = std::min(HASH_BLOCK, n_rows - row);
      if (rows_.is_single()) read_single(readers[0], row, n, cpu);
      else read(readers, columns, row, n, cpu);
      if (!work(row, n)) return;
    }
  }

  uint64_t tag(int64_t i) const { return tags_[static_cast<size_t>(i)]; }
  const uint64_t* words(int64_t i) const { return words_.data() + i * rows_.n_words; }
  const uint8_t* const* tails(int64_t i) const { return tails_.data() + i * rows_.n_tails; }

  uint64_t single(int64_t i) const {  // the word of a single key
    return plain_ == nullptr ? words_[static_cast<size_t>(i)] : load<uint64_t>(now_ + i * 8);
  }
  bool may_be_null() const { return may_be_null_; }
  bool single_is_null(int64_t i) const { return nulls_[static_cast<size_t>(i)] != 0; }
  bool any_is_null(int64_t i) const {
    uint64_t bits = rows_.is_single() ? nulls_[static_cast<size_t>(i)] : 0;
    for (int32_t j = 0; j < rows_.n_null_words; ++j) bits |= words(i)[j];
    return bits != 0;
  }

  // The tag of a kept single key.
  uint64_t tag_of(uint64_t word) const { return finish(start_ * GOLDEN + word); }

  // Look up the tags of all rows; for a single key `value` is then that of its slot. Of other keys
  // it is that of the first slot with the row's tag, which is almost always its own.
  void look_up(const Slots& slots, int64_t n) {
    slots.look_up(tags_.data(), n, cpu_, values_.data());
  }
  uint64_t value(int64_t i) const { return values_[static_cast<size_t>(i)]; }

  // Fetch what row i + SLOTS_AHEAD will change.
  FABRIC_INLINE void ahead(const Slots& slots, int64_t i, int64_t n) const {
    slots.fetch(tag(std::min(i + SLOTS_AHEAD, n - 1)));
  }

 private:
  void read_single(const KeyReader& reader, int64_t row, int64_t n, int cpu) {
    now_ = plain_ + row * 8;
    const uint8_t* words = now_;
    if (plain_ == nullptr) {
      if (may_be_null_) std::fill_n(nulls_.begin(), n, 0);
      reader.read(row, n, words_.data(), 1, nullptr, 0, nulls_.data(), 0);
      words = reinterpret_cast<const uint8_t*>(words_.data());
    }
    hash_words(reinterpret_cast<const Raw<uint64_t>*>(words), n, start_, cpu, tags_.data());
  }

  void read(const std::vector<KeyReader>& readers, const std::vector<Column>& columns, int64_t row,
            int64_t n, int cpu) {
    uint64_t* words = words_.data();
    for (int64_t i = 0; i < n; ++i) {
      for (int32_t j = 0; j < rows_.n_null_words; ++j) words[i * rows_.n_words + j] = 0;
    }
    const uint8_t** tails = tails_.data();
    for (size_t i = 0; i < readers.size(); ++i) {
      const KeyField& field = rows_.fields[i];
      readers[i].read(row, n, words + field.word, rows_.n_words, tails,
                      field.in_tail ? rows_.n_tails : 0, words + i / 64, static_cast<int>(i % 64));
      tails += field.in_tail;
    }
    hash_block(columns, row, n, start_, cpu, tags_.data());
  }

  const KeyRows& rows_;
  const uint64_t start_ = start_of(0);
  std::vector<uint64_t> tags_, values_;
  std::vector<uint64_t> words_, nulls_;
  std::vector<const uint8_t*> tails_;
  const uint8_t* plain_ = nullptr;  // the words of the column, and of the block, where they lie
  const uint8_t* now_ = nullptr;
  bool may_be_null_ = false;
  int cpu_ = CPU_SCALAR;
};

}  // namespace fabric
