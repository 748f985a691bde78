// Columns of rows that are being written, by number.
//
// One job: `Rows`, where the values of each column lie, depth first, whatever offsets slices left.
// Row i of a struct is value `offset + i` of its fields; a list's items are counted from the first
// of its child.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "codecs/columns.hpp"

namespace fabric::codecs {

struct Source {
  const FieldType* type = nullptr;
  const uint8_t* validity = nullptr;
  const uint8_t* offsets = nullptr;
  const uint8_t* data = nullptr;
  int64_t offset = 0;

  bool is_null(int64_t i) const {
    return type->kind == Kind::null || (validity != nullptr && !bit_at(validity, offset + i));
  }

  template <class T>
  T value(int64_t i) const {
    return load<T>(data + (offset + i) * static_cast<int64_t>(sizeof(T)));
  }

  const uint8_t* fixed(int64_t i) const { return data + (offset + i) * type->width; }

  // Where the items of a list, or the bytes of a text, begin and end.
  std::pair<int64_t, int64_t> range(int64_t i) const {
    const auto* ends = offsets + (offset + i) * (type->is_large ? 8 : 4);
    if (type->is_large) return {load<int64_t>(ends), load<int64_t>(ends + 8)};
    return {load<int32_t>(ends), load<int32_t>(ends + 4)};
  }

  // A signed number of any width but uint64; also times.
  int64_t integer(int64_t i) const {
    switch (type->kind) {
      case Kind::int8: return value<int8_t>(i);
      case Kind::int16: return value<int16_t>(i);
      case Kind::uint8: return value<uint8_t>(i);
      case Kind::uint16: return value<uint16_t>(i);
      case Kind::uint32: return value<uint32_t>(i);
      default: return type->width == 4 ? value<int32_t>(i) : value<int64_t>(i);
    }
  }
};

class Rows {
 public:
  explicit Rows(const ArrowSchema& schema) : columns_(schema) { add_types(columns_); }

  size_t size() const { return sources_.size(); }
  const Source& operator[](int32_t id) const { return sources_[static_cast<size_t>(id)]; }
  const FieldType& type(int32_t id) const { return *sources_[static_cast<size_t>(id)].type; }

  // Look at these rows: a struct array of the schema.
  void bind(const ArrowArray& rows) {
    size_t id = 0;
    bind(rows, id);
  }

 private:
  void add_types(const Column& column) {
    for (const Column& child : column.children()) {
      sources_.emplace_back().type = &child.type();
      add_types(child);
    }
  }

  void bind(const ArrowArray& array, size_t& id) {
    for (int64_t k = 0; k < array.n_children; ++k) {
      const ArrowArray& child = *array.children[k];
      Source& source = sources_[id++];
      source.offset = child.offset;
      const bool has_nulls = child.null_count != 0 && child.n_buffers > 0;
      source.validity = has_nulls ? bytes_of(child, 0) : nullptr;
      const Kind kind = source.type->kind;
      const bool is_bytes = kind == Kind::text || kind == Kind::binary;
      const bool has_offsets = is_bytes || kind == Kind::list || kind == Kind::map;
      source.offsets = has_offsets ? bytes_of(child, 1) : nullptr;
      const int64_t last = is_bytes ? 2 : 1;
      source.data = child.n_buffers > last ? bytes_of(child, last) : nullptr;
      bind(child, id);
    }
  }

  Column columns_;  // for its types
  std::vector<Source> sources_;
};

}  // namespace fabric::codecs
