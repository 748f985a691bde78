// The least or greatest value of each group, of any type that has an order.
//
// One job: compare values of one column by group id and keep the better one. Values of one word are
// kept as ranks (unsigned words in the order of the values, NaN the greatest); others are kept as
// key_store.hpp keeps keys. Nulls are left out.
#include <algorithm>

#include "hash.hpp"
#include "key_store.hpp"
#include "tables.hpp"

namespace fabric {
namespace {

class KeptExtremes final : public Extremes {
 public:
  KeptExtremes(const Type& type, bool greatest)
      : type_(type), greatest_(greatest), kept_(KeyRows({type})),
        ranked_(kept_.rows().is_single() && type.value != Value::bytes) {}

  bool is_ranked() const override { return ranked_; }

  void reserve(const int32_t* ids, int64_t n, int cpu) override {
    const int64_t size = int64_t{most_id(ids, n, cpu)} + 1;
    if (ranked_) by_group_.reserve(size);
    else seen_.reserve(size);
  }

  // `type` may be another layout of the values.
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    const KeyReader reader(type, array);
    const KeyField& field = kept_.rows().fields[0];
    const int64_t stride = std::max(1, field.n_words);
    std::vector<uint64_t> words(static_cast<size_t>(HASH_BLOCK * stride));
    std::vector<uint64_t> nulls(words.size());
    std::vector<const uint8_t*> tails(HASH_BLOCK);
    for (int64_t row = 0; row < array.length; row += HASH_BLOCK) {
      const int64_t n = std::min(HASH_BLOCK, array.length - row);
      std::fill(nulls.begin(), nulls.end(), 0);
      reader.read(row, n, words.data(), stride, tails.data(), 1, nulls.data(), 0);
      if (ranked_) ranks(words.data(), nulls.data(), ids + row, n);
      else values(words.data(), tails.data(), nulls.data(), ids + row, n);
    }
  }

  void merge(const Type& type, const ArrowArray& states, const int32_t* ids) override {
    update(type, states, ids);
  }

  void clear(const int32_t* ids, int64_t n) override {
    for (int64_t i = 0; i < n; ++i) {
      if (ids[i] < 0) continue;
      if (ranked_) by_group_[ids[i]] = {0, 0};
      else if (seen_[ids[i]]) kept_.forget(ids[i]);
      if (!ranked_) seen_[ids[i]] = 0;
    }
  }

  void read(const int32_t* ids, int64_t n, uint8_t* out, uint8_t* seen) const override {
    for (int64_t i = 0; i < n; ++i) {
      const Best best = by_group_[checked(ids[i])];
      const uint64_t word = word_of(best.rank);
      std::memcpy(out + i * 8, &word, sizeof word);
      seen[i] = best.seen != 0;
    }
  }

  void put_out(const int32_t* ids, int64_t n, ArrowArray& out) const override {
    std::vector<int32_t> there(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      there[static_cast<size_t>(i)] = seen_[checked(ids[i])] ? ids[i] : -1;
    }
    kept_.put_out(there.data(), n, -1, out);
  }

  int64_t n_bytes() const override {
    return by_group_.n_bytes() + seen_.n_bytes() + kept_.n_bytes();
  }

 private:
  struct Best {
    uint64_t rank;
    uint64_t seen;
  };
  static constexpr uint64_t TOP = UINT64_C(1) << 63;

  static int32_t checked(int32_t id) {
    if (id < 0) throw std::out_of_range("there is no group " + std::to_string(id));
    return id;
  }

  bool is_float() const {
    return type_.value == Value::float16 || type_.value == Value::float32 ||
           type_.value == Value::float64;
  }
  bool is_unsigned() const {
    return type_.value == Value::unsigned_int || type_.layout == Layout::boolean;
  }
  int float_shift() const { return 64 - 8 * type_.width; }  // sign bit to the top

  uint64_t rank_of(uint64_t word) const {
    if (is_unsigned()) return word;
    if (!is_float()) return word ^ TOP;
    word <<= float_shift();
    return word & TOP ? ~word : word | TOP;
  }
  uint64_t word_of(uint64_t rank) const {
    if (is_unsigned()) return rank;
    if (!is_float()) return rank ^ TOP;
    return (rank & TOP ? rank ^ TOP : ~rank) >> float_shift();
  }

  void ranks(const uint64_t* words, const uint64_t* nulls, const int32_t* ids, int64_t n) {
    const uint64_t flip = greatest_ ? ~UINT64_C(0) : 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i + GROUPS_AHEAD < n) __builtin_prefetch(by_group_.data() + ids[i + GROUPS_AHEAD], 1);
      if (ids[i] < 0 || nulls[i] != 0) continue;
      const uint64_t rank = rank_of(words[i]);
      Best& best = by_group_[ids[i]];
      if (best.seen == 0 || (rank ^ flip) < (best.rank ^ flip)) best = {rank, 1};
    }
  }

  void values(const uint64_t* words, const uint8_t* const* tails, const uint64_t* nulls,
              const int32_t* ids, int64_t n) {
    const KeyRows& rows = kept_.rows();
    const KeyField& field = rows.fields[0];
    std::vector<uint64_t> row(static_cast<size_t>(rows.n_words));
    const int64_t stride = std::max(1, field.n_words);
    for (int64_t i = 0; i < n; ++i, words += stride, nulls += stride) {
      const int32_t id = ids[i];
      if (id < 0 || *nulls != 0) continue;
      if (seen_[id]) {
        const int order = compare(words, tails + i, kept_.row(id) + field.word, id);
        if (greatest_ ? order <= 0 : order >= 0) continue;
      }
      std::copy_n(words, field.n_words, row.begin() + field.word);
      replace(id, row.data(), tails + i);
    }
  }

  void replace(int32_t id, const uint64_t* row, const uint8_t* const* tail) {
    if (seen_[id]) kept_.forget(id);
    seen_[id] = 0;  // should there be no memory for the new one
    kept_.keep(id, row, tail);
    seen_[id] = 1;
  }

  // Less, equal or greater than 0 as the value is less, equal or greater than a group's.
  int compare(const uint64_t* value, const uint8_t* const* tail, const uint64_t* known,
              int32_t id) const {
    const KeyField& field = kept_.rows().fields[0];
    if (field.in_tail) {
      const uint64_t size = std::min(value[0], known[0]);
      const int order = size > 0 ? std::memcmp(*tail, kept_.tail(id), size) : 0;
      return order != 0 ? order : (value[0] > known[0]) - (value[0] < known[0]);
    }
    if (type_.value == Value::bytes) {
      return std::memcmp(value, known, static_cast<size_t>(type_.width));
    }
    for (int32_t i = field.n_words - 1; i >= 0; --i) {  // decimals: the sign is on top
      const uint64_t flip = i == field.n_words - 1 ? TOP : 0;
      const uint64_t a = value[i] ^ flip, b = known[i] ^ flip;
      if (a != b) return a < b ? -1 : 1;
    }
    return 0;
  }

  Type type_;
  bool greatest_;
  KeyStore kept_;
  bool ranked_;
  Growing<Best> by_group_;
  Growing<uint8_t> seen_;
};

}  // namespace

std::unique_ptr<Extremes> make_extremes(const Type& type, bool greatest) {
  return std::make_unique<KeptExtremes>(type, greatest);
}

}  // namespace fabric
