// Rows by their keys: the state of a join's side.
//
// One job: keep rows, find those of equal keys, forget them by time. A slot's value is the first
// and the last row of a key (each + 1); rows of one key form a chain in the order of their coming,
// which nobody reads for keys of a single row. All arrays lie by row; rows that are free are used
// again.
#include <limits>

#include "key_block.hpp"
#include "key_store.hpp"
#include "stored_column.hpp"
#include "tables.hpp"

namespace fabric {
namespace {

constexpr int64_t JOIN_ROWS_MAX = std::numeric_limits<int32_t>::max();
constexpr int64_t TIMES_A_RUN = 4096;  // rows whose least time is known

class JoinRows final : public JoinTable {
 public:
  JoinRows(const Types& keys, const Types& payload)
      : keys_(KeyRows(keys)), block_(keys_.rows()) {
    for (const Type& type : payload) columns_.emplace_back(type);
  }

  void insert(const Types& key_types, const Arrays& keys, const Arrays& payload,
              const int64_t* times, int cpu) override {
    const int64_t n = keys[0]->length;
    places_.resize(static_cast<size_t>(n));
    choose_places(n);
    try {
      for (size_t i = 0; i < columns_.size(); ++i) {
        columns_[i].put(*payload[i], places_.data(), n_places_);
      }
    } catch (...) {  // what was put lies at free places
      for (const int32_t place : places_) give_back(place);
      throw;
    }
    block_.each(key_types, keys, 0, cpu, [&](int64_t row, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        block_.ahead(slots_, i, count);
        const int32_t place = places_[static_cast<size_t>(row + i)];
        set_time(place, times == nullptr ? NEVER : times[row + i]);
        add(i, place);
      }
      return true;
    });
  }

  const int32_t* placed() const override { return places_.data(); }

  int64_t probe(const Types& types, const Arrays& arrays, int64_t begin, int64_t most, bool outer,
                int cpu) override {
    n_pairs_ = 0;
    each_has_one_ = true;
    int64_t end = arrays[0]->length;
    block_.each(types, arrays, begin, cpu, [&](int64_t row, int64_t n) {
      const int64_t done = outer ? probe_block<true>(row, n, begin, most)
                                 : probe_block<false>(row, n, begin, most);
      if (done < row + n) end = done;
      return done == row + n;
    });
    return end;
  }
  int64_t n_pairs() const override { return n_pairs_; }
  bool each_has_one() const override { return each_has_one_; }
  const uint32_t* probed() const override { return probed_.data(); }
  const int32_t* found() const override { return found_.data(); }

  void contains(const Types& types, const Arrays& arrays, int cpu, uint8_t* out) override {
    block_.each(types, arrays, 0, cpu, [&](int64_t row, int64_t n) {
      look_up(n);
      for (int64_t i = 0; i < n; ++i) out[row + i] = value_of(i) != 0;
      return true;
    });
  }

  int64_t remove_before(int64_t bound) override {
    const int64_t before = n_rows_;
    const int64_t n_runs = (n_places_ + TIMES_A_RUN - 1) / TIMES_A_RUN;
    for (int64_t run = 0; run < n_runs; ++run) {
      if (least_[run] >= bound) continue;
      const int64_t last = std::min(n_places_, (run + 1) * TIMES_A_RUN);
      int64_t least = NEVER;
      for (int64_t place = run * TIMES_A_RUN; place < last; ++place) {
        if (!alive_[place]) continue;
        if (times_[place] < bound) remove(static_cast<int32_t>(place));
        else least = std::min(least, times_[place]);
      }
      least_[run] = least;
    }
    return before - n_rows_;
  }

  std::vector<int32_t> before(int64_t bound) const override {
    std::vector<int32_t> found;
    for (int64_t first = 0; first < n_places_; first += TIMES_A_RUN) {
      if (least_[first / TIMES_A_RUN] >= bound) continue;
      const int64_t last = std::min(n_places_, first + TIMES_A_RUN);
      for (int64_t place = first; place < last; ++place) {
        if (alive_[place] && times_[place] < bound) found.push_back(static_cast<int32_t>(place));
      }
    }
    return found;
  }

  void list(int32_t* places) const override {
    for (int64_t place = 0; place < n_places_; ++place) {
      if (alive_[place]) *places++ = static_cast<int32_t>(place);
    }
  }

  int64_t n_places() const override { return n_places_; }
  void times(const int32_t* places, int64_t n, int64_t* out) const override {
    for (int64_t i = 0; i < n; ++i) out[i] = times_[places[i]];
  }

  void gather(const int32_t* places, int64_t n, const std::vector<int32_t>& which,
              ArrowArray& out) const override {
    build_array(system_allocator(), out, [&](Holder& holder) {
      holder.init(out, n, 1, static_cast<int64_t>(which.size()));
      for (size_t i = 0; i < which.size(); ++i) {
        columns_[static_cast<size_t>(which[i])].gather(holder, places, n, *out.children[i]);
      }
    });
  }

  int64_t n_rows() const override { return n_rows_; }
  int64_t n_bytes() const override {
    int64_t sum = slots_.n_bytes() + keys_.n_bytes() + tags_.n_bytes() + next_.n_bytes() +
                  before_.n_bytes() + times_.n_bytes() + least_.n_bytes() + alive_.n_bytes() +
                  static_cast<int64_t>(free_.capacity() * sizeof(int32_t));
    for (const StoredColumn& column : columns_) sum += column.n_bytes();
    return sum;
  }

 private:
  static constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();
  static constexpr uint8_t IN_SLOT = 1, NO_SLOT = 2;

  static uint64_t value_for(uint64_t first, uint64_t last) { return first | last << 32; }
  static uint32_t first_in(uint64_t value) { return static_cast<uint32_t>(value); }
  static uint32_t last_in(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

  void choose_places(int64_t n) {
    const int64_t fresh = std::max<int64_t>(0, n - static_cast<int64_t>(free_.size()));
    if (n_places_ + fresh > JOIN_ROWS_MAX) {
      throw std::overflow_error("a join table holds at most 2147483647 rows");
    }
    reserve(n_places_ + fresh);
    free_.reserve(free_.size() + static_cast<size_t>(n));  // so that giving back can't fail
    for (int32_t& place : places_) {
      if (free_.empty()) {
        if (n_places_ % TIMES_A_RUN == 0) least_[n_places_ / TIMES_A_RUN] = NEVER;
        place = static_cast<int32_t>(n_places_++);
      } else {
        place = free_.back();
        free_.pop_back();
      }
    }
  }

  void reserve(int64_t n) {
    for (StoredColumn& column : columns_) column.reserve(n);
    next_.reserve(n);
    before_.reserve(n);
    times_.reserve(n);
    alive_.reserve(n);
    least_.reserve(n / TIMES_A_RUN + 1);
    if (!keys_.rows().is_single()) tags_.reserve(n);
  }

  void give_back(int32_t place) {
    for (StoredColumn& column : columns_) column.forget(place);
    free_.push_back(place);
  }

  void set_time(int32_t place, int64_t time) {
    times_[place] = time;
    int64_t& least = least_[place / TIMES_A_RUN];
    least = std::min(least, time);
  }

  // Row i of the block into the chain of its key.
  void add(int64_t i, int32_t place) {
    const uint64_t tag = block_.tag(i), row = static_cast<uint64_t>(place) + 1;
    if (is_null_single(i)) return count(place, NO_SLOT);
    const Slots::Place at = find(i);
    keep_key(i, place);
    if (at.slot < 0) {
      slots_.put(tag, value_for(row, row));
    } else {
      const uint32_t last = last_in(at.value());
      next_[last - 1] = static_cast<uint32_t>(row);
      before_[place] = last;
      at.value() = value_for(first_in(at.value()), row);
    }
    count(place, IN_SLOT);
  }

  void keep_key(int64_t i, int32_t place) {
    if (keys_.rows().is_single()) {
      const uint64_t word = block_.single(i);
      keys_.keep(place, &word, nullptr);
    } else {
      tags_[place] = block_.tag(i);
      keys_.keep(place, block_.words(i), block_.tails(i));
    }
  }

  void count(int32_t place, uint8_t alive) {
    alive_[place] = alive;
    ++n_rows_;
  }

  // A null single key has no slot, and nobody looks for it.
  bool is_null_single(int64_t i) const {
    return keys_.rows().is_single() && block_.may_be_null() && block_.single_is_null(i);
  }

  Slots::Place find(int64_t i) const {
    if (keys_.rows().is_single()) {
      return slots_.find(slots_.home(block_.tag(i)), block_.tag(i), [](uint64_t) { return true; });
    }
    return slots_.find(slots_.home(block_.tag(i)), block_.tag(i),
                       [&](uint64_t value) { return is_key(value, i); });
  }

  bool is_key(uint64_t value, int64_t i) const {
    return keys_.same(int64_t{first_in(value)} - 1, block_.words(i), block_.tails(i));
  }

  // Look up a block of rows, and fetch the keys they are compared with.
  void look_up(int64_t n) {
    block_.look_up(slots_, n);
    if (keys_.rows().is_single()) return;
    for (int64_t i = 0; i < n; ++i) {
      if (block_.value(i) != 0) keys_.fetch(int64_t{first_in(block_.value(i))} - 1);
    }
  }

  // The rows of the key of row i of the block; 0 when there is none.
  FABRIC_INLINE uint64_t value_of(int64_t i) const {
    if (block_.may_be_null() && block_.any_is_null(i)) return 0;
    const uint64_t first = block_.value(i);
    if (first == 0 || keys_.rows().is_single() || is_key(first, i)) return first;
    const Slots::Place place = find(i);
    return place.slot < 0 ? 0 : place.value();
  }

  template <bool OUTER>
  int64_t probe_block(int64_t row, int64_t n, int64_t begin, int64_t most) {
    room(n);
    look_up(n);
    if (n_pairs_ + n <= most && one_each(n)) {
      pair_each(row, n);
      return row + n;
    }
    each_has_one_ = false;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t value = value_of(i);
      const int64_t before = n_pairs_;
      probed_[static_cast<size_t>(n_pairs_)] = static_cast<uint32_t>(row + i);
      found_[static_cast<size_t>(n_pairs_)] = static_cast<int32_t>(first_in(value)) - 1;
      n_pairs_ += OUTER || value != 0;
      if (__builtin_expect(first_in(value) != last_in(value), 0)) {
        follow(first_in(value), static_cast<uint32_t>(row + i));
        room(n - i - 1);
      }
      if (__builtin_expect(n_pairs_ > most, 0) && row + i > begin) {
        n_pairs_ = before;
        return row + i;
      }
    }
    return row + n;
  }

  // Whether each row of the block has exactly one row here; told of single keys without nulls.
  bool one_each(int64_t n) const {
    if (!keys_.rows().is_single() || block_.may_be_null()) return false;
    uint64_t other = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t value = block_.value(i);
      other |= (value >> 32 ^ (value & 0xFFFFFFFF)) | static_cast<uint64_t>(value == 0);
    }
    return other == 0;
  }

  void pair_each(int64_t row, int64_t n) {
    uint32_t* probed = probed_.data() + n_pairs_;
    int32_t* found = found_.data() + n_pairs_;
    for (int64_t i = 0; i < n; ++i) probed[i] = static_cast<uint32_t>(row + i);
    for (int64_t i = 0; i < n; ++i) found[i] = static_cast<int32_t>(first_in(block_.value(i))) - 1;
    n_pairs_ += n;
  }

  // Room for `n` more pairs, and one to write in vain.
  void room(int64_t n) {
    const size_t wanted = static_cast<size_t>(n_pairs_ + n + 1);
    if (wanted <= probed_.size()) return;
    probed_.resize(wanted + wanted / 2);
    found_.resize(wanted + wanted / 2);
  }

  // The rows behind the first of a chain.
  __attribute__((noinline)) void follow(uint32_t first, uint32_t probed) {
    for (uint32_t row = next_[first - 1]; row != 0; row = next_[row - 1]) {
      room(1);
      probed_[static_cast<size_t>(n_pairs_)] = probed;
      found_[static_cast<size_t>(n_pairs_)] = static_cast<int32_t>(row) - 1;
      ++n_pairs_;
    }
  }

  void remove(int32_t place) {
    // Before anything changes, and by half as much again: many rows go one after the other.
    if (free_.size() == free_.capacity()) free_.reserve(free_.size() + free_.size() / 2 + 64);
    const uint32_t row = static_cast<uint32_t>(place) + 1;
    const uint32_t before = before_[place], next = next_[place];
    if (before != 0) next_[before - 1] = next;
    if (next != 0) before_[next - 1] = before;
    if (alive_[place] == IN_SLOT && (before == 0 || next == 0)) shorten(place, row, before, next);
    before_[place] = next_[place] = 0;
    if (alive_[place] == IN_SLOT) keys_.forget(place);
    alive_[place] = 0;
    --n_rows_;
    give_back(place);
  }

  // A chain loses its first or its last row, or both.
  void shorten(int32_t place, uint32_t row, uint32_t before, uint32_t next) {
    const uint64_t tag = keys_.rows().is_single() ? block_.tag_of(keys_.word(place))
                                                  : tags_[place];
    const Slots::Place at = slots_.find(slots_.home(tag), tag, [row](uint64_t value) {
      return first_in(value) == row || last_in(value) == row;
    });
    if (before == 0 && next == 0) return slots_.erase(at);
    const uint64_t value = at.value();
    at.value() = before == 0 ? value_for(next, last_in(value)) : value_for(first_in(value), before);
  }

  KeyStore keys_;
  Slots slots_;
  KeyBlock block_;
  std::vector<StoredColumn> columns_;
  Growing<uint64_t> tags_;
  Growing<uint32_t> next_, before_;  // rows of the same key; 0: none
  Growing<int64_t> times_, least_;
  Growing<uint8_t> alive_;
  std::vector<int32_t> places_, free_, found_;
  std::vector<uint32_t> probed_;
  int64_t n_rows_ = 0, n_places_ = 0, n_pairs_ = 0;
  bool each_has_one_ = false;
};

}  // namespace

std::unique_ptr<JoinTable> make_join_table(const Types& keys, const Types& payload) {
  return std::make_unique<JoinRows>(keys, payload);
}

}  // namespace fabric
