// Words of the rows of columns, and hashes made of them.
//
// One job: the loops over values, compiled for each CPU, and the walk over a column's layouts. A
// list folds its elements' words through a window of one block, so memory stays small whatever the
// lists hold.
#include "hash.hpp"

#include <algorithm>

#include "arrays.hpp"
#include "cpu.hpp"
#include "words.hpp"

namespace fabric {
namespace {

constexpr uint64_t LIST_START = UINT64_C(0x8EBC6AF09C88C6E3);
constexpr uint64_t STRUCT_START = UINT64_C(0x589965CC75374CC3);

uint64_t interval_word(int64_t months, int64_t days, int64_t nanoseconds) {
  const uint64_t hash = step(STRUCT_START, static_cast<uint64_t>(months));
  return step(step(hash, static_cast<uint64_t>(days)), static_cast<uint64_t>(nanoseconds));
}

// --- loops, compiled for each CPU -------------------------------------------------------------

template <class T>
struct IntegerWords {
  static FABRIC_INLINE void run(const Raw<T>* __restrict in, uint64_t* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<uint64_t>(static_cast<int64_t>(in[i].value));
    }
  }
};

struct ScaleWords {  // time units to nanoseconds
  static FABRIC_INLINE void run(uint64_t* __restrict words, int64_t n, uint64_t unit) {
    for (int64_t i = 0; i < n; ++i) words[i] *= unit;
  }
};

template <class T>
struct FloatWords {
  static FABRIC_INLINE void run(const Raw<T>* __restrict in, uint64_t* __restrict out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = double_word(static_cast<double>(in[i].value));
  }
};

struct MaskNulls {  // words of null rows become NULL_WORD
  static FABRIC_INLINE void run(const uint8_t* bits, int64_t first, uint64_t* __restrict words,
                                int64_t n) {
    for (int64_t i = 0; i < n; i += 64) {
      const int64_t count = n - i < 64 ? n - i : 64;
      const uint64_t valid = load_bits(bits, first + i, count);
      for (int64_t j = 0; j < count; ++j) {
        words[i + j] = valid >> j & 1 ? words[i + j] : NULL_WORD;
      }
    }
  }
};

struct BooleanWords {
  static FABRIC_INLINE void run(const uint8_t* bits, int64_t first, uint64_t* __restrict out,
                                int64_t n) {
    for (int64_t i = 0; i < n; i += 64) {
      const int64_t count = n - i < 64 ? n - i : 64;
      const uint64_t word = load_bits(bits, first + i, count);
      for (int64_t j = 0; j < count; ++j) out[i + j] = word >> j & 1;
    }
  }
};

// Keys are read first, often from memory: fetch them ahead while earlier ones are worked on.
constexpr int64_t KEYS_AHEAD_BYTES = 16384;
constexpr int64_t TILE = 64;

template <class Work>
FABRIC_INLINE void by_tiles(const Raw<uint64_t>* words, int64_t n, Work work) {
  int64_t i = 0;
  for (; i + TILE <= n; i += TILE) {
    const char* ahead = reinterpret_cast<const char*>(words + i) + KEYS_AHEAD_BYTES;
    for (int64_t line = 0; line < TILE; line += 8) __builtin_prefetch(ahead + line * 8);
    for (int64_t j = i; j < i + TILE; ++j) work(j);
  }
  for (; i < n; ++i) work(i);
}

struct StepWords {
  static FABRIC_INLINE void run(uint64_t* __restrict hashes, const Raw<uint64_t>* __restrict words,
                                int64_t n) {
    by_tiles(words, n, [=](int64_t i) FABRIC_LAMBDA { hashes[i] = step(hashes[i], words[i]); });
  }
};

struct StepFirst {  // the first key: every row starts from the same hash
  static FABRIC_INLINE void run(uint64_t* __restrict hashes, const Raw<uint64_t>* __restrict words,
                                int64_t n, uint64_t start) {
    start *= GOLDEN;
    by_tiles(words, n, [=](int64_t i) FABRIC_LAMBDA { hashes[i] = finish(start + words[i]); });
  }
};

}  // namespace

// --- columns ----------------------------------------------------------------------------------

// Words of a child, computed a block at a time as they are asked for in rising order.
class Column::Window {
 public:
  explicit Window(const Column& column) : column_(column), words_(HASH_BLOCK) {}
  uint64_t at(int64_t index, int64_t end) {
    if (index < first_ || index >= last_) {
      first_ = index;
      last_ = end - index < HASH_BLOCK ? end : index + HASH_BLOCK;
      column_.words(first_, last_ - first_, words_.data());
    }
    return words_[static_cast<size_t>(index - first_)];
  }

 private:
  const Column& column_;
  std::vector<uint64_t> words_;
  int64_t first_ = 0, last_ = 0;
};

uint64_t start_of(uint64_t seed) { return finish(seed + GOLDEN); }

bool Column::valid(int64_t row) const { return validity_ == nullptr || bit_at(validity_, row); }

Column::Column(const Type& type, const ArrowArray& array, int cpu)
    : type_(type), array_(array), cpu_(cpu), validity_(validity_of(type, array)) {
  if (type.layout == Layout::dictionary) {
    children_.emplace_back(type.children[0], *array.dictionary, cpu);
    if (array.dictionary->length <= array.length) {  // else only the values used are hashed
      dictionary_words_.resize(static_cast<size_t>(array.dictionary->length));
      children_[0].words(0, array.dictionary->length, dictionary_words_.data());
    }
  } else {
    for (size_t i = 0; i < type.children.size(); ++i) {
      children_.emplace_back(type.children[i], *array.children[i], cpu);
    }
  }
  if (type.value == Value::decimal) factor_ = scale_factor(type.scale);
}

const Raw<uint64_t>* Column::plain(int64_t row) const {
  const bool is_word = type_.layout == Layout::fixed && type_.width == 8 &&
                       (type_.value == Value::signed_int || type_.value == Value::unsigned_int ||
                        (type_.value == Value::temporal && type_.nanoseconds == 1));
  if (!is_word || validity_ != nullptr) return nullptr;
  return buffer_of<uint64_t>(array_, 1) + array_.offset + row;
}

void Column::words(int64_t row, int64_t n, uint64_t* out) const {
  row += array_.offset;
  switch (type_.layout) {
    case Layout::null: std::fill(out, out + n, NULL_WORD); return;
    case Layout::boolean:
      by_cpu<BooleanWords>(cpu_, bytes_of(array_, 1), row, out, n);
      break;
    case Layout::fixed: fixed(row, n, out); break;
    case Layout::binary: binary<int32_t>(row, n, out); break;
    case Layout::large_binary: binary<int64_t>(row, n, out); break;
    case Layout::view: views(row, n, out); break;
    case Layout::list: lists<int32_t>(row, n, out); break;
    case Layout::large_list: lists<int64_t>(row, n, out); break;
    case Layout::list_view: list_views<int32_t>(row, n, out); break;
    case Layout::large_list_view: list_views<int64_t>(row, n, out); break;
    case Layout::fixed_list: fixed_lists(row, n, out); break;
    case Layout::structure: structs(row, n, out); break;
    case Layout::sparse_union: case Layout::dense_union: unions(row, n, out); return;
    case Layout::dictionary: dictionary(row, n, out); break;
    case Layout::run_end: runs(row, n, out); return;
  }
  if (validity_ != nullptr) by_cpu<MaskNulls>(cpu_, validity_, row, out, n);
}

template <class T>
void Column::integers(int64_t row, int64_t n, uint64_t* out) const {
  const Raw<T>* in = buffer_of<T>(array_, 1) + row;
  by_cpu<IntegerWords<T>>(cpu_, in, out, n);
}

void Column::integers_of_width(bool is_signed, int64_t row, int64_t n, uint64_t* out) const {
  switch (type_.width) {
    case 1: return is_signed ? integers<int8_t>(row, n, out) : integers<uint8_t>(row, n, out);
    case 2: return is_signed ? integers<int16_t>(row, n, out) : integers<uint16_t>(row, n, out);
    case 4: return is_signed ? integers<int32_t>(row, n, out) : integers<uint32_t>(row, n, out);
    default: return integers<uint64_t>(row, n, out);
  }
}

void Column::fixed(int64_t row, int64_t n, uint64_t* out) const {
  const uint8_t* in = bytes_of(array_, 1) + row * type_.width;
  switch (type_.value) {
    case Value::signed_int: return integers_of_width(true, row, n, out);
    case Value::unsigned_int: return integers_of_width(false, row, n, out);
    case Value::temporal:
      integers_of_width(true, row, n, out);
      if (type_.nanoseconds == 1) return;
      return by_cpu<ScaleWords>(cpu_, out, n, static_cast<uint64_t>(type_.nanoseconds));
    case Value::float64:
      return by_cpu<FloatWords<double>>(cpu_, buffer_of<double>(array_, 1) + row, out, n);
    case Value::float32:
      return by_cpu<FloatWords<float>>(cpu_, buffer_of<float>(array_, 1) + row, out, n);
    default:
      for (int64_t i = 0; i < n; ++i) out[i] = odd_word(in + i * type_.width);
  }
}

// The fixed widths no CPU has a type for.
inline uint64_t Column::odd_word(const uint8_t* value) const {
  switch (type_.value) {
    case Value::float16: return double_word(half_to_double(load<uint16_t>(value)));
    case Value::decimal: return decimal_word(value, type_.width, factor_);
    case Value::days_ms:
      return interval_word(0, load<int32_t>(value), int64_t{load<int32_t>(value + 4)} * 1000000);
    case Value::months_days_ns:
      return interval_word(load<int32_t>(value), load<int32_t>(value + 4),
                           load<int64_t>(value + 8));
    default: return bytes_word(value, static_cast<uint64_t>(type_.width));
  }
}

template <class Offset>
void Column::binary(int64_t row, int64_t n, uint64_t* out) const {
  const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
  const uint8_t* data = bytes_of(array_, 2);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = bytes_word(data + offsets[i], static_cast<uint64_t>(offsets[i + 1] - offsets[i]));
  }
}

void Column::views(int64_t row, int64_t n, uint64_t* out) const {
  const uint8_t* view = bytes_of(array_, 1) + row * 16;
  for (int64_t i = 0; i < n; ++i, view += 16) {
    if (!valid(row + i)) continue;  // what a null row points at is anybody's guess
    const int32_t size = load<int32_t>(view);
    const uint8_t* data = size <= 12 ? view + 4
        : bytes_of(array_, 2 + load<int32_t>(view + 8)) + load<int32_t>(view + 12);
    out[i] = bytes_word(data, static_cast<uint64_t>(size));
  }
}

inline uint64_t Column::fold(Window& window, int64_t first, int64_t last, int64_t end) {
  uint64_t hash = LIST_START;
  for (int64_t i = first; i < last; ++i) hash = step(hash, window.at(i, end));
  return step(hash, static_cast<uint64_t>(last - first));
}

template <class Offset>
void Column::lists(int64_t row, int64_t n, uint64_t* out) const {
  const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
  Window window(children_[0]);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = fold(window, offsets[i], offsets[i + 1], offsets[n]);
  }
}

template <class Offset>
void Column::list_views(int64_t row, int64_t n, uint64_t* out) const {
  const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
  const Raw<Offset>* sizes = buffer_of<Offset>(array_, 2) + row;
  Window window(children_[0]);
  for (int64_t i = 0; i < n; ++i) {
    if (!valid(row + i)) continue;
    const int64_t end = static_cast<int64_t>(offsets[i]) + sizes[i];
    out[i] = fold(window, offsets[i], end, end);
  }
}

void Column::fixed_lists(int64_t row, int64_t n, uint64_t* out) const {
  const int64_t size = type_.width;
  Window window(children_[0]);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = (row + i) * size;
    out[i] = fold(window, first, first + size, (row + n) * size);
  }
}

void Column::structs(int64_t row, int64_t n, uint64_t* out) const {
  std::vector<uint64_t> words(static_cast<size_t>(n));
  std::fill(out, out + n, STRUCT_START);
  for (const Column& child : children_) {
    child.words(row, n, words.data());
    by_cpu<StepWords>(cpu_, out, reinterpret_cast<const Raw<uint64_t>*>(words.data()), n);
  }
}

// The word of the value it holds.
void Column::unions(int64_t row, int64_t n, uint64_t* out) const {
  const uint8_t* codes = bytes_of(array_, 0) + row;
  const bool dense = type_.layout == Layout::dense_union;
  const Raw<int32_t>* offsets = dense ? buffer_of<int32_t>(array_, 1) + row : nullptr;
  for (int64_t i = 0; i < n; ++i) {
    const Column& child = children_[static_cast<size_t>(type_.child_of[codes[i] & 127])];
    child.words(dense ? offsets[i] : row + i, 1, out + i);
  }
}

inline int64_t Column::index_at(int64_t row) const {
  const uint8_t* at = bytes_of(array_, 1) + row * type_.width;
  const bool is_signed = type_.value == Value::signed_int;
  switch (type_.width) {
    case 1: return is_signed ? load<int8_t>(at) : load<uint8_t>(at);
    case 2: return is_signed ? load<int16_t>(at) : load<uint16_t>(at);
    case 4: return is_signed ? int64_t{load<int32_t>(at)} : int64_t{load<uint32_t>(at)};
    default: return load<int64_t>(at);
  }
}

void Column::dictionary(int64_t row, int64_t n, uint64_t* out) const {
  const uint64_t size = static_cast<uint64_t>(array_.dictionary->length);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = static_cast<uint64_t>(index_at(row + i));
    if (index >= size) {
      out[i] = NULL_WORD;  // garbage under a null; a wrong index can't read outside
    } else if (!dictionary_words_.empty()) {
      out[i] = dictionary_words_[index];
    } else {
      children_[0].words(static_cast<int64_t>(index), 1, out + i);
    }
  }
}

inline int64_t Column::run_end_at(int64_t run) const {
  const ArrowArray& ends = *array_.children[0];
  const uint8_t* at = bytes_of(ends, 1) + (ends.offset + run) * type_.children[0].width;
  if (type_.children[0].width == 2) return load<int16_t>(at);
  return type_.children[0].width == 4 ? int64_t{load<int32_t>(at)} : load<int64_t>(at);
}

void Column::runs(int64_t row, int64_t n, uint64_t* out) const {
  int64_t low = 0, high = array_.children[0]->length;
  while (low < high) {  // the first run that ends after `row`
    const int64_t middle = (low + high) / 2;
    if (run_end_at(middle) > row) high = middle; else low = middle + 1;
  }
  for (int64_t i = 0; i < n; ++low) {
    uint64_t word;
    children_[1].words(low, 1, &word);
    for (const int64_t end = run_end_at(low) - row; i < n && i < end; ++i) out[i] = word;
  }
}

namespace {

// The words of a block of rows: the column's own, or made in `room`.
const Raw<uint64_t>* words_of(const Column& column, int64_t row, int64_t n, uint64_t* room) {
  if (const auto* plain = column.plain(row); plain != nullptr) return plain;
  column.words(row, n, room);
  return reinterpret_cast<const Raw<uint64_t>*>(room);
}

}  // namespace

void hash_words(const Raw<uint64_t>* words, int64_t n, uint64_t start, int cpu, uint64_t* hashes) {
  by_cpu<StepFirst>(cpu, hashes, words, n, start);
}

void hash_block(const std::vector<Column>& keys, int64_t row, int64_t n, uint64_t start, int cpu,
                uint64_t* hashes) {
  uint64_t room[HASH_BLOCK];
  by_cpu<StepFirst>(cpu, hashes, words_of(keys[0], row, n, room), n, start);
  for (size_t i = 1; i < keys.size(); ++i) {
    by_cpu<StepWords>(cpu, hashes, words_of(keys[i], row, n, room), n);
  }
}

void step_array(const ArrowSchema& schema, const ArrowArray& array, int cpu, uint64_t* hashes) {
  const Type type = parse_type(schema);
  const Column column(type, array, cpu);
  uint64_t room[HASH_BLOCK];
  for (int64_t row = 0; row < array.length; row += HASH_BLOCK) {
    const int64_t n = std::min(HASH_BLOCK, array.length - row);
    by_cpu<StepWords>(cpu, hashes + row, words_of(column, row, n, room), n);
  }
}

}  // namespace fabric
