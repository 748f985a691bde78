// Rows as bytes into columns, and columns into rows: whole arrays at a time.
//
// One job: `rows_of` (columns to a large_binary array) and `columns_of` (the way back), with
// buffers of a Holder. Values are built in one pass over the bytes. O(rows + bytes).
#pragma once
#include "memory.hpp"
#include "rows.hpp"

namespace fabric {

// A large_binary array is made in two steps: its offsets first, then its bytes.
class BytesMaker {
 public:
  explicit BytesMaker(int64_t n) : holder_(new Holder(system_allocator())), n_(n) {
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
  BytesMaker(const BytesMaker&) = delete;
  BytesMaker& operator=(const BytesMaker&) = delete;
  ~BytesMaker() {
    if (holder_ != nullptr) holder_->abandon();
  }

  void add(int64_t row, int64_t size) { offsets_[row + 1] = offsets_[row] + size; }
  void add_null(int64_t row) {
    offsets_[row + 1] = offsets_[row];
    validity_[row >> 3] &= static_cast<uint8_t>(~(1u << (row & 7)));
    ++n_null_;
  }
  uint8_t* make_room() { return data_ = holder_->buffer<uint8_t>(offsets_[n_]); }
  uint8_t* at(int64_t row) const { return data_ + offsets_[row]; }

  void finish(ArrowArray& out) {
    holder_->init(out, n_, 3, 0);
    out.buffers[0] = n_null_ > 0 ? validity_ : nullptr;
    out.buffers[1] = offsets_;
    out.buffers[2] = data_;
    out.null_count = n_null_;
    holder_->done();
    holder_ = nullptr;
  }

 private:
  Holder* holder_;
  int64_t n_, n_null_ = 0;
  int64_t* offsets_ = nullptr;
  uint8_t* validity_ = nullptr;
  uint8_t* data_ = nullptr;
};

// The columns of a struct array as rows, `prefix` before each of them.
inline void rows_of(const RowTypes& types, const ArrowArray& columns, bool canonical,
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

// Rows without their first `skip` bytes as the columns of a struct array; a null row is nulls.
inline void columns_of(const RowTypes& types, const ArrowArray& rows, int64_t skip,
                       ArrowArray& out) {
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
  Holder* holder = new Holder(system_allocator());
  try {
    holder->init(out, rows.length, 1, static_cast<int64_t>(makers.size()));
    for (size_t i = 0; i < makers.size(); ++i) makers[i].finish(*holder, *out.children[i]);
  } catch (...) {
    holder->abandon();
    throw;
  }
  holder->done();
}

}  // namespace fabric
