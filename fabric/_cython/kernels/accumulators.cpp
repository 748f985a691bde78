// Counts, sums and moments by group id.
//
// One job: one small struct a group, zero when nothing has come in, updated row by row. Sums are
// wider than what they add, so that an order of rows never decides whether they fit; the caller
// checks when it asks for results. Structs are fetched ahead.
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "growing.hpp"
#include "tables.hpp"

namespace fabric {
namespace {

// One `State` a group; `State::put` writes what `read` gives, `WIDTH` bytes.
template <class State, class Base = Accumulator>
class ByGroup : public Base {
 public:
  void reserve(const int32_t* ids, int64_t n, int cpu) final {
    states_.reserve(int64_t{most_id(ids, n, cpu)} + 1);
  }
  void clear(const int32_t* ids, int64_t n) final {
    for (int64_t i = 0; i < n; ++i) {
      if (ids[i] >= 0) states_[ids[i]] = State{};
    }
  }
  void read(const int32_t* ids, int64_t n, uint8_t* out, uint8_t* seen) const final {
    for (int64_t i = 0; i < n; ++i, out += State::WIDTH) {
      if (ids[i] < 0) throw std::out_of_range("there is no group " + std::to_string(ids[i]));
      seen[i] = states_[ids[i]].put(ids[i], out);
    }
  }
  int64_t n_bytes() const final { return states_.n_bytes(); }

 protected:
  // `add(state, row)` for all rows that have a group and are not null.
  template <class Add>
  FABRIC_INLINE void each(const Type& type, const ArrowArray& array, const int32_t* ids, Add add) {
    const uint8_t* valid = validity_of(type, array);
    const int64_t first = array.offset;
    if (valid == nullptr) each_row(ids, array.length, [](int64_t) { return true; }, add);
    else each_row(ids, array.length, [=](int64_t i) { return bit_at(valid, first + i); }, add);
  }

  // The same for rows of which `there(row)` holds.
  template <class There, class Add>
  FABRIC_INLINE void each_row(const int32_t* ids, int64_t n, There there, Add add) {
    State* states = states_.data();
    const int64_t fetched = n > GROUPS_AHEAD ? n - GROUPS_AHEAD : 0;
    for (int64_t i = 0; i < fetched; ++i) {
      __builtin_prefetch(states + ids[i + GROUPS_AHEAD], 1);
      if (ids[i] >= 0 && there(i)) add(states[ids[i]], i);
    }
    for (int64_t i = fetched; i < n; ++i) {
      if (ids[i] >= 0 && there(i)) add(states[ids[i]], i);
    }
  }

 private:
  Growing<State> states_;
};

template <class T>
inline bool put_value(T value, bool seen, uint8_t* out) {
  std::memcpy(out, &value, sizeof value);
  return seen;
}

// --- counts -------------------------------------------------------------------------------------

struct RowCount {
  static constexpr int64_t WIDTH = 8;
  int64_t value;
  bool put(int32_t, uint8_t* out) const { return put_value(value, true, out); }
};

class RowCounts final : public ByGroup<RowCount, Counts> {
 public:
  void rows(const int32_t* ids, int64_t n) override {
    each_row(ids, n, [](int64_t) { return true; }, [](RowCount& count, int64_t) { ++count.value; });
  }
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    if (type.layout == Layout::null) return;
    each(type, array, ids, [](RowCount& count, int64_t) { ++count.value; });
  }
  void merge(const Type& type, const ArrowArray& counts, const int32_t* ids) override {
    const Raw<int64_t>* in = buffer_of<int64_t>(counts, 1) + counts.offset;
    each(type, counts, ids, [in](RowCount& count, int64_t i) { count.value += in[i].value; });
  }
};

// --- sums ---------------------------------------------------------------------------------------

struct IntegerSum {  // of 95 bits and a sign: 2^32 rows of the largest value fit
  static constexpr int64_t WIDTH = 16;
  uint64_t low;
  int32_t high;
  uint32_t seen;

  __int128 value() const {
    return static_cast<__int128>(high) * (static_cast<__int128>(1) << 64) + low;
  }
  bool put(int32_t, uint8_t* out) const { return put_value(value(), seen != 0, out); }
};

class IntegerSums final : public ByGroup<IntegerSum> {
 public:
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    const bool is_signed = type.value == Value::signed_int;
    switch (type.width) {
      case 1: return is_signed ? add<int8_t>(type, array, ids) : add<uint8_t>(type, array, ids);
      case 2: return is_signed ? add<int16_t>(type, array, ids) : add<uint16_t>(type, array, ids);
      case 4: return is_signed ? add<int32_t>(type, array, ids) : add<uint32_t>(type, array, ids);
      default: return is_signed ? add<int64_t>(type, array, ids) : add<uint64_t>(type, array, ids);
    }
  }

  void merge(const Type& type, const ArrowArray& sums, const int32_t* ids) override {
    const uint8_t* in = bytes_of(sums, 1) + sums.offset * 16;
    each(type, sums, ids, [in](IntegerSum& sum, int64_t i) {
      const __int128 value = sum.value() + load<__int128>(in + i * 16);
      sum = {static_cast<uint64_t>(value), static_cast<int32_t>(value >> 64), 1};
    });
  }

 private:
  template <class T>
  void add(const Type& type, const ArrowArray& array, const int32_t* ids) {
    const Raw<T>* in = buffer_of<T>(array, 1) + array.offset;
    each(type, array, ids, [in](IntegerSum& sum, int64_t i) FABRIC_LAMBDA {
      const T value = in[i].value;
      const uint64_t word = static_cast<uint64_t>(value);
      sum.low += word;
      sum.high += static_cast<int32_t>(sum.low < word) - static_cast<int32_t>(value < T{0});
      sum.seen = 1;
    });
  }
};

struct FloatSum {
  static constexpr int64_t WIDTH = 8;
  double value;
  uint64_t seen;
  bool put(int32_t, uint8_t* out) const { return put_value(value, seen != 0, out); }
};

class FloatSums final : public ByGroup<FloatSum> {
 public:
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    if (type.width == 4) add<float>(type, array, ids);
    else add<double>(type, array, ids);
  }
  void merge(const Type& type, const ArrowArray& sums, const int32_t* ids) override {
    add<double>(type, sums, ids);
  }

 private:
  template <class T>
  void add(const Type& type, const ArrowArray& array, const int32_t* ids) {
    const Raw<T>* in = buffer_of<T>(array, 1) + array.offset;
    each(type, array, ids, [in](FloatSum& sum, int64_t i) FABRIC_LAMBDA {
      sum.value += static_cast<double>(in[i].value);
      sum.seen = 1;
    });
  }
};

struct DecimalSum {  // 256 bits: wider than any number of rows can make it
  static constexpr int64_t WIDTH = 32;
  uint64_t words[4];
  uint64_t seen;

  void add(unsigned __int128 low, unsigned __int128 high) {
    unsigned __int128 known[2];
    std::memcpy(known, words, sizeof known);
    known[0] += low;
    known[1] += high + (known[0] < low);
    std::memcpy(words, known, sizeof known);
    seen = 1;
  }
  bool put(int32_t, uint8_t* out) const {
    std::memcpy(out, words, sizeof words);
    return seen != 0;
  }
};

class DecimalSums final : public ByGroup<DecimalSum> {
 public:
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    const uint8_t* in = bytes_of(array, 1) + array.offset * 16;
    each(type, array, ids, [in](DecimalSum& sum, int64_t i) {
      const auto value = load<unsigned __int128>(in + i * 16);
      sum.add(value, value >> 127 ? ~static_cast<unsigned __int128>(0) : 0);
    });
  }
  void merge(const Type& type, const ArrowArray& sums, const int32_t* ids) override {
    const uint8_t* in = bytes_of(sums, 1) + sums.offset * DecimalSum::WIDTH;
    each(type, sums, ids, [in](DecimalSum& sum, int64_t i) {
      const uint8_t* at = in + i * DecimalSum::WIDTH;
      sum.add(load<unsigned __int128>(at), load<unsigned __int128>(at + 16));
    });
  }
};

// --- moments ------------------------------------------------------------------------------------

struct Moment {
  static constexpr int64_t WIDTH = 40;
  double count, mean, m2, m3, m4;
  bool put(int32_t, uint8_t* out) const { return put_value(*this, true, out); }
};

// After Pébay, Formulas for robust, one-pass parallel computation of covariances and
// arbitrary-order statistical moments, 2008.
inline void join_moments(Moment& a, const Moment& b) {
  if (b.count == 0) return;
  const double n = a.count + b.count, d = b.mean - a.mean, d_n = d / n, d2 = d * d_n;
  const double ab = a.count * b.count;
  a.m4 += b.m4 + d2 * d_n * d_n * ab * (a.count * a.count - ab + b.count * b.count) +
          6 * d_n * d_n * (a.count * a.count * b.m2 + b.count * b.count * a.m2) +
          4 * d_n * (a.count * b.m3 - b.count * a.m3);
  a.m3 += b.m3 + d2 * d_n * ab * (a.count - b.count) + 3 * d_n * (a.count * b.m2 - b.count * a.m2);
  a.m2 += b.m2 + d2 * ab;
  a.mean += d_n * b.count;
  a.count = n;
}

class MomentSums final : public ByGroup<Moment> {
 public:
  void update(const Type& type, const ArrowArray& array, const int32_t* ids) override {
    const Raw<double>* in = buffer_of<double>(array, 1) + array.offset;
    each(type, array, ids, [in](Moment& moment, int64_t i) {
      join_moments(moment, Moment{1, in[i].value, 0, 0, 0});
    });
  }
  void merge(const Type& type, const ArrowArray& states, const int32_t* ids) override {
    const uint8_t* in = bytes_of(states, 1) + states.offset * Moment::WIDTH;  // 40 bytes each
    each(type, states, ids, [in](Moment& moment, int64_t i) {
      join_moments(moment, load<Moment>(in + i * Moment::WIDTH));
    });
  }
};

}  // namespace

std::unique_ptr<Counts> make_counts() { return std::make_unique<RowCounts>(); }
std::unique_ptr<Accumulator> make_integer_sums() { return std::make_unique<IntegerSums>(); }
std::unique_ptr<Accumulator> make_float_sums() { return std::make_unique<FloatSums>(); }
std::unique_ptr<Accumulator> make_decimal_sums() { return std::make_unique<DecimalSums>(); }
std::unique_ptr<Accumulator> make_moment_sums() { return std::make_unique<MomentSums>(); }

}  // namespace fabric
