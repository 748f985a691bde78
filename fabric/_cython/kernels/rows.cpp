// Rows as bytes into columns, and columns into rows.
//
// One job: `RowColumn` writes the values of a bound column, `ColumnMaker` builds a column in one
// pass over the bytes.
#include "rows.hpp"

#include <cstdlib>

#include "hash.hpp"
#include "memory.hpp"
#include "words.hpp"

namespace fabric {
namespace {

// A float's bits as keys are compared: -0.0 is 0.0, one NaN (design of the hash).
inline void write_canonical(const Type& type, const uint8_t* in, uint8_t* out) {
  if (type.value == Value::float64) {
    const uint64_t bits = double_word(load<double>(in));
    std::memcpy(out, &bits, 8);
  } else if (type.value == Value::float32) {
    float x = load<float>(in) + 0.0f;
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    if (x != x) bits = 0x7FC00000;
    std::memcpy(out, &bits, 4);
  } else if (type.value == Value::float16) {
    uint16_t bits = load<uint16_t>(in);
    if ((bits & 0x7FFF) > 0x7C00) bits = 0x7E00;
    if (bits == 0x8000) bits = 0;
    std::memcpy(out, &bits, 2);
  } else {
    std::memcpy(out, in, static_cast<size_t>(type.width));
  }
}

inline uint32_t row_length(int64_t n) {
  if (n > INT64_C(0xFFFFFFFF)) throw std::overflow_error("a value has more than 4 GiB");
  return static_cast<uint32_t>(n);
}

// One column, bound for writing. `canonical`: floats as keys.
class RowColumn {
 public:
  RowColumn(const Type& type, const ArrowArray& array, bool canonical)
      : type_(type), array_(array), canonical_(canonical), validity_(validity_of(type, array)) {
    for (size_t i = 0; i < type.children.size(); ++i) {
      children_.emplace_back(type.children[i], *array.children[i], canonical);
    }
  }

  int64_t size(int64_t row) const {
    row += array_.offset;
    if (is_null(row)) return 1;
    switch (type_.layout) {
      case Layout::boolean: return 2;
      case Layout::fixed: return 1 + type_.width;
      case Layout::binary: return 5 + span<int32_t>(row).n;
      case Layout::large_binary: return 5 + span<int64_t>(row).n;
      case Layout::list: return 5 + elements_size(span<int32_t>(row));
      case Layout::large_list: return 5 + elements_size(span<int64_t>(row));
      case Layout::fixed_list: return 1 + elements_size({row * type_.width, type_.width});
      default: {
        int64_t n = 1;
        for (const RowColumn& child : children_) n += child.size(row);
        return n;
      }
    }
  }

  uint8_t* write(int64_t row, uint8_t* out) const {
    row += array_.offset;
    if (is_null(row)) return *out = ROW_NULL, out + 1;
    *out++ = ROW_VALID;
    switch (type_.layout) {
      case Layout::boolean: *out = bit_at(bytes_of(array_, 1), row); return out + 1;
      case Layout::fixed: return fixed(bytes_of(array_, 1) + row * type_.width, out);
      case Layout::binary: return bytes(span<int32_t>(row), out);
      case Layout::large_binary: return bytes(span<int64_t>(row), out);
      case Layout::list: return counted(span<int32_t>(row), out);
      case Layout::large_list: return counted(span<int64_t>(row), out);
      case Layout::fixed_list: return elements({row * type_.width, type_.width}, out);
      default:
        for (const RowColumn& child : children_) out = child.write(row, out);
        return out;
    }
  }

 private:
  struct Span { int64_t first, n; };

  bool is_null(int64_t row) const {
    return type_.layout == Layout::null || (validity_ != nullptr && !bit_at(validity_, row));
  }

  template <class Offset>
  Span span(int64_t row) const {
    const Raw<Offset>* offsets = buffer_of<Offset>(array_, 1) + row;
    return {offsets[0], offsets[1] - offsets[0]};
  }

  int64_t elements_size(Span span) const {
    int64_t n = 0;
    for (int64_t i = 0; i < span.n; ++i) n += children_[0].size(span.first + i);
    return n;
  }

  uint8_t* fixed(const uint8_t* in, uint8_t* out) const {
    if (canonical_) write_canonical(type_, in, out);
    else std::memcpy(out, in, static_cast<size_t>(type_.width));
    return out + type_.width;
  }

  static uint8_t* length(int64_t n, uint8_t* out) {
    const uint32_t length = row_length(n);
    std::memcpy(out, &length, 4);
    return out + 4;
  }

  uint8_t* bytes(Span span, uint8_t* out) const {
    out = length(span.n, out);
    if (span.n > 0) std::memcpy(out, bytes_of(array_, 2) + span.first, static_cast<size_t>(span.n));
    return out + span.n;
  }

  uint8_t* elements(Span span, uint8_t* out) const {
    for (int64_t i = 0; i < span.n; ++i) out = children_[0].write(span.first + i, out);
    return out;
  }

  uint8_t* counted(Span span, uint8_t* out) const { return elements(span, length(span.n, out)); }

  const Type& type_;
  const ArrowArray& array_;
  bool canonical_;
  const uint8_t* validity_;
  std::vector<RowColumn> children_;
};

// One column that grows a value at a time.
class ColumnMaker {
 public:
  explicit ColumnMaker(const Type& type) : type_(type) {
    for (const Type& child : type.children) children_.emplace_back(child);
  }

  void add_null() {
    bit(valid_, false);
    ++n_null_;
    switch (type_.layout) {
      case Layout::boolean: bit(data_, false); break;
      case Layout::fixed: data_.resize(data_.size() + static_cast<size_t>(type_.width)); break;
      case Layout::fixed_list:
        for (int32_t i = 0; i < type_.width; ++i) children_[0].add_null();
        break;
      case Layout::structure:
        for (ColumnMaker& child : children_) child.add_null();
        break;
      case Layout::null: break;
      default: ends_.push_back(end());
    }
    ++n_;
  }

  void add(RowReader& reader) {
    if (!reader.valid()) return add_null();
    bit(valid_, true);
    switch (type_.layout) {
      case Layout::boolean: bit(data_, *reader.take(1) != 0); break;
      case Layout::fixed: append(reader.take(type_.width), type_.width); break;
      case Layout::binary: case Layout::large_binary: {
        const int64_t n = reader.length();
        append(reader.take(n), n);
        ends_.push_back(end() + n);
        break;
      }
      case Layout::list: case Layout::large_list: {
        const int64_t n = reader.length();
        for (int64_t i = 0; i < n; ++i) children_[0].add(reader);
        ends_.push_back(end() + n);
        break;
      }
      case Layout::fixed_list:
        for (int32_t i = 0; i < type_.width; ++i) children_[0].add(reader);
        break;
      case Layout::structure:
        for (ColumnMaker& child : children_) child.add(reader);
        break;
      default: break;
    }
    ++n_;
  }

  void finish(Holder& holder, ArrowArray& out) const {
    const bool with_ends = has_ends(), with_data = has_data();
    const bool plain = type_.layout != Layout::null;
    holder.init(out, n_, plain + with_ends + with_data, static_cast<int64_t>(children_.size()));
    out.null_count = type_.layout == Layout::null ? n_ : n_null_;
    if (plain && n_null_ > 0) out.buffers[0] = copied(holder, valid_.data(), valid_.size());
    if (with_ends) out.buffers[1] = offsets(holder);
    if (with_data) out.buffers[1 + with_ends] = copied(holder, data_.data(), data_.size());
    for (size_t i = 0; i < children_.size(); ++i) children_[i].finish(holder, *out.children[i]);
  }

 private:
  bool has_ends() const {
    return type_.layout == Layout::binary || type_.layout == Layout::large_binary ||
           type_.layout == Layout::list || type_.layout == Layout::large_list;
  }
  bool has_data() const {
    return type_.layout == Layout::boolean || type_.layout == Layout::fixed ||
           type_.layout == Layout::binary || type_.layout == Layout::large_binary;
  }
  int64_t end() const { return ends_.empty() ? 0 : ends_.back(); }

  void bit(std::vector<uint8_t>& bits, bool value) const {
    if ((n_ & 7) == 0) bits.push_back(0);
    bits.back() = static_cast<uint8_t>(bits.back() | unsigned{value} << (n_ & 7));
  }

  void append(const uint8_t* from, int64_t n) { data_.insert(data_.end(), from, from + n); }

  static const void* copied(Holder& holder, const void* from, size_t n) {
    uint8_t* made = holder.buffer<uint8_t>(static_cast<int64_t>(n));
    if (n > 0) std::memcpy(made, from, n);
    return made;
  }

  template <class Offset>
  const void* offsets_of(Holder& holder) const {
    Offset* made = holder.buffer<Offset>(n_ + 1);
    made[0] = 0;
    Offset* to = made + 1;
    for (const int64_t end : ends_) *to++ = static_cast<Offset>(end);
    return made;
  }

  const void* offsets(Holder& holder) const {
    if (type_.layout == Layout::large_binary || type_.layout == Layout::large_list) {
      return offsets_of<int64_t>(holder);
    }
    if (end() > INT32_MAX) {
      throw std::overflow_error("a column of state has more than 2 GiB: ask for fewer keys");
    }
    return offsets_of<int32_t>(holder);
  }

  const Type& type_;
  int64_t n_ = 0, n_null_ = 0;
  std::vector<uint8_t> valid_, data_;
  std::vector<int64_t> ends_;
  std::vector<ColumnMaker> children_;
};

}  // namespace

BytesMaker::BytesMaker(int64_t n) : holder_(new Holder(system_allocator())), n_(n) {
  try {
    offsets_ = holder_->buffer<int64_t>(n + 1);
    validity_ = holder_->buffer<uint8_t>((n + 7) / 8);
  } catch (...) {
    holder_->abandon();
    throw;
  }
  offsets_[0] = 0;
  std::memset(validity_, 0xFF, static_cast<size_t>((n + 7) / 8));
}

BytesMaker::~BytesMaker() {
  if (holder_ != nullptr) holder_->abandon();
}

uint8_t* BytesMaker::make_room() { return data_ = holder_->buffer<uint8_t>(offsets_[n_]); }

void BytesMaker::finish(ArrowArray& out) {
  holder_->init(out, n_, 3, 0);
  out.buffers[0] = n_null_ > 0 ? validity_ : nullptr;
  out.buffers[1] = offsets_;
  out.buffers[2] = data_;
  out.null_count = n_null_;
  holder_->done();
  holder_ = nullptr;
}

void rows_of(const RowTypes& types, const ArrowArray& columns, bool canonical,
             const uint8_t* prefix, int64_t n_prefix, ArrowArray& out) {
  std::vector<RowColumn> bound;
  for (size_t i = 0; i < types.types().size(); ++i) {
    bound.emplace_back(types.types()[i], *columns.children[i], canonical);
  }
  BytesMaker made(columns.length);
  for (int64_t row = 0; row < columns.length; ++row) {
    int64_t size = n_prefix;
    for (const RowColumn& column : bound) size += column.size(columns.offset + row);
    made.add(row, size);
  }
  uint8_t* to = made.make_room();
  for (int64_t row = 0; row < columns.length; ++row) {
    if (n_prefix > 0) std::memcpy(to, prefix, static_cast<size_t>(n_prefix));
    to += n_prefix;
    for (const RowColumn& column : bound) to = column.write(columns.offset + row, to);
  }
  made.finish(out);
}

void columns_of(const RowTypes& types, const ArrowArray& rows, int64_t skip, ArrowArray& out) {
  std::vector<ColumnMaker> makers;
  for (const Type& type : types.types()) makers.emplace_back(type);
  const Raw<int64_t>* offsets = buffer_of<int64_t>(rows, 1) + rows.offset;
  const uint8_t* validity = rows.null_count == 0 ? nullptr : bytes_of(rows, 0);
  for (int64_t row = 0; row < rows.length; ++row) {
    if (validity != nullptr && !bit_at(validity, rows.offset + row)) {
      for (ColumnMaker& maker : makers) maker.add_null();
      continue;
    }
    RowReader reader(bytes_of(rows, 2) + offsets[row], offsets[row + 1] - offsets[row]);
    reader.take(skip);
    for (ColumnMaker& maker : makers) maker.add(reader);
    if (!reader.done()) throw std::runtime_error("a row of state is longer than its type");
  }
  build_array(system_allocator(), out, [&](Holder& holder) {
    holder.init(out, rows.length, 1, static_cast<int64_t>(makers.size()));
    for (size_t i = 0; i < makers.size(); ++i) makers[i].finish(holder, *out.children[i]);
  });
}

}  // namespace fabric
