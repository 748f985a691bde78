// A column whose rows lie at places that are given to them, and come out in any order.
//
// One job: put the rows of arrays at places, forget them, gather them. Values of fixed width lie in
// one array; strings and binary as 16 bytes each, short ones within. Rows from place -1 are null.
#pragma once
#include <algorithm>
#include <limits>

#include "arrays.hpp"
#include "growing.hpp"
#include "memory.hpp"

namespace fabric {

class StoredColumn {
 public:
  // Throws std::invalid_argument for a type that is not flat.
  explicit StoredColumn(const Type& type) : type_(type), width_(width_of(type)) {}
  StoredColumn(StoredColumn&&) = default;
  StoredColumn(const StoredColumn&) = delete;
  StoredColumn& operator=(const StoredColumn&) = delete;
  ~StoredColumn() {
    for (int64_t i = 0; is_text() && i < data_.size() / width_; ++i) forget_text(i);
  }

  // Room for places 0 … n - 1; what fails, fails here or in `put` of strings.
  void reserve(int64_t n) {
    data_.reserve(n * width_);
    if (has_nulls_) nulls_.reserve(n);
  }

  // Row i of an array of the column's type to `places[i]`, all of them below `n_places`.
  void put(const ArrowArray& array, const int32_t* places, int64_t n_places) {
    const uint8_t* valid = validity_of(type_, array);
    if (valid != nullptr && !has_nulls_) {
      nulls_.reserve(n_places);
      has_nulls_ = true;
    }
    for (int64_t i = 0; has_nulls_ && i < array.length; ++i) {
      nulls_[places[i]] = valid != nullptr && !bit_at(valid, array.offset + i);
    }
    if (type_.layout == Layout::boolean) put_bits(array, places);
    else if (type_.layout == Layout::binary) put_texts<int32_t>(array, valid, places);
    else if (type_.layout == Layout::large_binary) put_texts<int64_t>(array, valid, places);
    else if (width_ > 0) put_fixed(array, places);
  }

  void forget(int32_t place) {
    if (is_text()) forget_text(place);
  }

  // Rows at `places` as an array of the column's type.
  void gather(Holder& holder, const int32_t* places, int64_t n, ArrowArray& out) const {
    if (type_.layout == Layout::null) {
      holder.init(out, n, 0, 0);
      out.null_count = n;
      return;
    }
    holder.init(out, n, is_text() ? 3 : 2, 0);
    gather_validity(holder, places, n, out);
    if (type_.layout == Layout::binary) return gather_texts<int32_t>(holder, places, n, out);
    if (type_.layout == Layout::large_binary) return gather_texts<int64_t>(holder, places, n, out);
    if (type_.layout == Layout::boolean) return gather_booleans(holder, places, n, out);
    uint8_t* made = holder.buffer<uint8_t>(n * width_);
    out.buffers[1] = made;
    switch (width_) {
      case 1: return copy<uint8_t>(places, n, made);
      case 2: return copy<uint16_t>(places, n, made);
      case 4: return copy<uint32_t>(places, n, made);
      case 8: return copy<uint64_t>(places, n, made);
      case 16: return copy<Wide16>(places, n, made);
      default: break;
    }
    for (int64_t i = 0; i < n; ++i, made += width_) {
      if (places[i] < 0) std::memset(made, 0, static_cast<size_t>(width_));
      else std::memcpy(made, at(places[i]), static_cast<size_t>(width_));
    }
  }

  int64_t n_bytes() const { return data_.n_bytes() + nulls_.n_bytes() + text_bytes_; }

 private:
  static constexpr int64_t GATHERED_AHEAD = 64;  // how many rows ahead values are fetched
  static constexpr uint32_t SHORT = 12;  // bytes that need no memory of their own
  struct Wide16 { uint64_t part[2]; };
  struct Text {
    uint32_t size;
    uint8_t bytes[SHORT];  // or, from the fourth on, where they are

    bool is_short() const { return size <= SHORT; }
    uint8_t* own() const { return load<uint8_t*>(bytes + 4); }
    const uint8_t* data() const { return is_short() ? bytes : own(); }
  };
  static_assert(sizeof(Text) == 16);

  static int64_t width_of(const Type& type) {
    switch (type.layout) {
      case Layout::null: return 0;
      case Layout::boolean: return 1;
      case Layout::fixed: return type.width;
      case Layout::binary: case Layout::large_binary: return sizeof(Text);
      default: throw std::invalid_argument("columns kept in tables are flat");
    }
  }

  bool is_text() const {
    return type_.layout == Layout::binary || type_.layout == Layout::large_binary;
  }
  uint8_t* at(int64_t place) { return data_.data() + place * width_; }
  const uint8_t* at(int64_t place) const { return data_.data() + place * width_; }
  Text* text(int64_t place) { return reinterpret_cast<Text*>(at(place)); }
  const Text* text(int64_t place) const { return reinterpret_cast<const Text*>(at(place)); }

  void forget_text(int64_t place) {
    Text* known = text(place);
    if (!known->is_short()) {
      text_bytes_ -= known->size;
      std::free(known->own());
    }
    known->size = 0;
  }

  void put_fixed(const ArrowArray& array, const int32_t* places) {
    const uint8_t* in = bytes_of(array, 1) + array.offset * width_;
    switch (width_) {
      case 4: return spread<uint32_t>(in, places, array.length);
      case 8: return spread<uint64_t>(in, places, array.length);
      default: break;
    }
    for (int64_t i = 0; i < array.length; ++i, in += width_) {
      std::memcpy(at(places[i]), in, static_cast<size_t>(width_));
    }
  }

  template <class T>
  void spread(const uint8_t* in, const int32_t* places, int64_t n) {
    T* to = reinterpret_cast<T*>(data_.data());
    for (int64_t i = 0; i < n; ++i) to[places[i]] = load<T>(in + i * int64_t{sizeof(T)});
  }

  void put_bits(const ArrowArray& array, const int32_t* places) {
    for (int64_t i = 0; i < array.length; ++i) {
      *at(places[i]) = bit_at(bytes_of(array, 1), array.offset + i);
    }
  }

  template <class Offset>
  void put_texts(const ArrowArray& array, const uint8_t* valid, const int32_t* places) {
    const Raw<Offset>* offsets = buffer_of<Offset>(array, 1) + array.offset;
    for (int64_t i = 0; i < array.length; ++i) {
      if (valid != nullptr && !bit_at(valid, array.offset + i)) continue;  // places begin empty
      const int64_t size = offsets[i + 1] - offsets[i];
      put_text(text(places[i]), bytes_of(array, 2) + offsets[i], size);
    }
  }

  void put_text(Text* to, const uint8_t* from, int64_t size) {
    if (size > std::numeric_limits<int32_t>::max()) {
      throw std::overflow_error("a value of 2 GiB does not fit a table");
    }
    if (size <= int64_t{SHORT}) {
      if (size > 0) std::memcpy(to->bytes, from, static_cast<size_t>(size));
    } else {
      uint8_t* own = static_cast<uint8_t*>(std::malloc(static_cast<size_t>(size)));
      if (own == nullptr) throw std::bad_alloc();
      std::memcpy(own, from, static_cast<size_t>(size));
      std::memcpy(to->bytes + 4, &own, sizeof own);
      text_bytes_ += size;
    }
    to->size = static_cast<uint32_t>(size);
  }

  bool is_null(int32_t place) const { return place < 0 || (has_nulls_ && nulls_[place]); }

  void gather_validity(Holder& holder, const int32_t* places, int64_t n, ArrowArray& out) const {
    int64_t n_null = 0;
    if (has_nulls_) {
      for (int64_t i = 0; i < n; ++i) n_null += is_null(places[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) n_null += places[i] < 0;
    }
    if (n_null == 0) return;
    out.null_count = n_null;
    uint8_t* bits = holder.buffer<uint8_t>((n + 7) / 8);
    std::memset(bits, 0, static_cast<size_t>((n + 7) / 8));
    for (int64_t i = 0; i < n; ++i) {
      bits[i >> 3] |= static_cast<uint8_t>(!is_null(places[i]) << (i & 7));
    }
    out.buffers[0] = bits;
  }

  template <class T>
  void copy(const int32_t* places, int64_t n, uint8_t* made) const {
    const T* from = reinterpret_cast<const T*>(data_.data());
    T* to = reinterpret_cast<T*>(made);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t ahead = places[std::min(i + GATHERED_AHEAD, n - 1)];
      __builtin_prefetch(from + std::max(ahead, 0));  // -1 is no row, and there may be none at all
      to[i] = places[i] < 0 ? T{} : from[places[i]];
    }
  }

  void gather_booleans(Holder& holder, const int32_t* places, int64_t n, ArrowArray& out) const {
    uint8_t* bits = holder.buffer<uint8_t>((n + 7) / 8);
    std::memset(bits, 0, static_cast<size_t>((n + 7) / 8));
    for (int64_t i = 0; i < n; ++i) {
      const unsigned bit = places[i] < 0 ? 0 : *at(places[i]);
      bits[i >> 3] |= static_cast<uint8_t>(bit << (i & 7));
    }
    out.buffers[1] = bits;
  }

  template <class Offset>
  void gather_texts(Holder& holder, const int32_t* places, int64_t n, ArrowArray& out) const {
    Offset* offsets = holder.buffer<Offset>(n + 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      offsets[i] = static_cast<Offset>(sum);
      if (!is_null(places[i])) sum += text(places[i])->size;
      if (sum > std::numeric_limits<Offset>::max()) {
        throw std::overflow_error("offsets do not fit 32 bits; gather fewer rows at a time");
      }
    }
    offsets[n] = static_cast<Offset>(sum);
    uint8_t* made = holder.buffer<uint8_t>(sum);
    for (int64_t i = 0; i < n; ++i) {
      const size_t size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      if (size > 0) std::memcpy(made + offsets[i], text(places[i])->data(), size);
    }
    out.buffers[1] = offsets;
    out.buffers[2] = made;
  }

  Type type_;
  int64_t width_;
  Growing<uint8_t> data_, nulls_;
  bool has_nulls_ = false;
  int64_t text_bytes_ = 0;
};

}  // namespace fabric
