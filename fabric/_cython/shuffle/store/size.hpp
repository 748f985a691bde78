// How many bytes of an array count: what budgets, messages and totals are measured in.
//
// One job: decoded bytes of a range of rows, the same on both ends of a wire, in next to no time
// for plain types (views, unions and list views are walked); offsets count one a row, so that bytes
// of slices add up. Dictionaries count apart: slices share them, and a stream sends them once.
#pragma once
#include <arrow/array/data.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "store/values.hpp"

namespace fabric {

struct Size {
  using Dictionary = std::pair<const arrow::ArrayData*, int64_t>;
  int64_t body = 0;
  std::vector<Dictionary> dictionaries;  // each once, with its bytes

  void add_dictionary(const Dictionary& found) {
    if (std::find(dictionaries.begin(), dictionaries.end(), found) == dictionaries.end()) {
      dictionaries.push_back(found);
    }
  }
  int64_t shared() const {
    int64_t total = 0;
    for (const Dictionary& dictionary : dictionaries) total += dictionary.second;
    return total;
  }
  int64_t total() const { return body + shared(); }
};

class Measure {
 public:
  explicit Measure(Size& size) : size_(size) {}

  // Rows [row, row + n) of `data`, counted from its own offset.
  void add(const arrow::ArrayData& data, int64_t row, int64_t n) {
    if (n > 0) add(data, storage(*data.type), row + data.offset, n);
  }

 private:
  static const arrow::DataType& storage(const arrow::DataType& type) {
    if (type.id() != arrow::Type::EXTENSION) return type;
    return storage(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }

  // From here on `row` counts from the start of the buffers.
  void add(const arrow::ArrayData& data, const arrow::DataType& type, int64_t row, int64_t n) {
    // A bitmap counts when it says something: the wire drops others.
    if (data.buffers[0] != nullptr &&
        arrow::internal::CountSetBits(data.buffers[0]->data(), row, n) < n) {
      size_.body += arrow::bit_util::BytesForBits(n);
    }
    switch (type.id()) {
      case arrow::Type::NA: return;
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return texts<int32_t>(data, row, n);
      case arrow::Type::LARGE_STRING:
      case arrow::Type::LARGE_BINARY: return texts<int64_t>(data, row, n);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW: return views(data, row, n);
      case arrow::Type::LIST:
      case arrow::Type::MAP: return lists<int32_t>(data, row, n);
      case arrow::Type::LARGE_LIST: return lists<int64_t>(data, row, n);
      case arrow::Type::LIST_VIEW: return list_views<int32_t>(data, row, n);
      case arrow::Type::LARGE_LIST_VIEW: return list_views<int64_t>(data, row, n);
      case arrow::Type::FIXED_SIZE_LIST: {
        const int64_t width = static_cast<const arrow::FixedSizeListType&>(type).list_size();
        return add(*data.child_data[0], row * width, n * width);
      }
      case arrow::Type::SPARSE_UNION: size_.body += n; [[fallthrough]];
      case arrow::Type::STRUCT:
        for (const auto& child : data.child_data) add(*child, row, n);
        return;
      case arrow::Type::DENSE_UNION:
        return unions(data, static_cast<const arrow::UnionType&>(type), row, n);
      case arrow::Type::RUN_END_ENCODED: return runs(data, row, n);
      case arrow::Type::DICTIONARY: return dictionary(data, type, n);
      default:
        size_.body += arrow::bit_util::BytesForBits(n * type.bit_width());
    }
  }

  template <class Offset>
  void texts(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    size_.body += n * static_cast<int64_t>(sizeof(Offset)) + from[n] - from[0];
  }

  void views(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const uint8_t* valid = data.buffers[0] == nullptr ? nullptr : data.buffers[0]->data();
    const Raw<int32_t>* view = values_of<int32_t>(data, 1, 4 * row);
    size_.body += n * 16;
    for (int64_t i = 0; i < n; ++i) {
      const bool there = valid == nullptr || arrow::bit_util::GetBit(valid, row + i);
      if (there && view[4 * i] > 12) size_.body += view[4 * i];
    }
  }

  template <class Offset>
  void lists(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    size_.body += n * static_cast<int64_t>(sizeof(Offset));
    add(*data.child_data[0], from[0], from[n] - from[0]);
  }

  template <class Offset>
  void list_views(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    const Raw<Offset>* sizes = values_of<Offset>(data, 2, row);
    int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (sizes[i] == 0) continue;
      first = std::min<int64_t>(first, from[i]);
      last = std::max<int64_t>(last, int64_t{from[i]} + sizes[i]);
    }
    size_.body += 2 * n * static_cast<int64_t>(sizeof(Offset));
    if (first < last) add(*data.child_data[0], first, last - first);
  }

  void unions(const arrow::ArrayData& data, const arrow::UnionType& type, int64_t row, int64_t n) {
    const int8_t* codes = data.GetValues<int8_t>(1, row);
    const Raw<int32_t>* from = values_of<int32_t>(data, 2, row);
    size_.body += n * 5;
    std::vector<std::pair<int64_t, int64_t>> used(data.child_data.size(), {-1, -1});
    for (int64_t i = 0; i < n; ++i) {
      auto& [first, last] = used[static_cast<size_t>(type.child_ids()[codes[i]])];
      first = first < 0 ? from[i] : std::min<int64_t>(first, from[i]);
      last = std::max<int64_t>(last, from[i]);
    }
    for (size_t i = 0; i < used.size(); ++i) {
      const auto [first, last] = used[i];
      if (first >= 0) add(*data.child_data[i], first, last - first + 1);
    }
  }

  void runs(const arrow::ArrayData& data, int64_t row, int64_t n) {
    switch (data.child_data[0]->type->id()) {
      case arrow::Type::INT16: return runs_of<int16_t>(data, row, n);
      case arrow::Type::INT32: return runs_of<int32_t>(data, row, n);
      default: return runs_of<int64_t>(data, row, n);
    }
  }

  template <class End>
  void runs_of(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const arrow::ArrayData& all = *data.child_data[0];
    const Raw<End>* ends = values_of<End>(all, 1);
    const int64_t first = std::upper_bound(ends, ends + all.length, row) - ends;
    const int64_t last = std::lower_bound(ends + first, ends + all.length, row + n) - ends;
    size_.body += (last - first + 1) * static_cast<int64_t>(sizeof(End));
    add(*data.child_data[1], first, last - first + 1);
  }

  void dictionary(const arrow::ArrayData& data, const arrow::DataType& type, int64_t n) {
    const auto& index = static_cast<const arrow::DictionaryType&>(type).index_type();
    size_.body += n * index->byte_width();
    Size values;
    Measure(values).add(*data.dictionary, 0, data.dictionary->length);
    size_.add_dictionary({data.dictionary.get(), values.body});
    for (const Size::Dictionary& inner : values.dictionaries) size_.add_dictionary(inner);
  }

  Size& size_;
};

// Rows [row, row + n) of a batch.
inline Size size_of(const arrow::RecordBatch& batch, int64_t row, int64_t n) {
  Size size;
  Measure measure(size);
  for (int i = 0; i < batch.num_columns(); ++i) measure.add(*batch.column_data(i), row, n);
  return size;
}

// Decoded bytes of a batch, dictionaries included.
inline int64_t bytes_of_batch(const arrow::RecordBatch& batch) {
  return size_of(batch, 0, batch.num_rows()).total();
}

}  // namespace fabric
