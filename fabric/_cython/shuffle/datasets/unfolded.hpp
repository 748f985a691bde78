// How much the rows of a batch from outside come to, once each has its values to itself.
//
// One job: count it, in time and memory of the order of the message. Views, list views, dense
// unions and runs may name the same values again and again, nulls and empty structs have lengths
// without bytes: a message of a kilobyte could keep a kernel busy for years. Offsets must be valid.
#pragma once
#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <vector>

#include "store/values.hpp"
#include "wire/fault.hpp"

namespace fabric {

constexpr int64_t UNFOLDED_BYTES_MAX = 1 << 30;
constexpr int64_t LENGTH_MAX = 1 << 24;  // of a nested column that has no bytes

// Whether values of this type can be longer than what they are kept in.
inline bool folds(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW:
    case arrow::Type::DENSE_UNION:
    case arrow::Type::RUN_END_ENCODED: return true;
    case arrow::Type::DICTIONARY:
      return folds(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default: break;
  }
  for (const auto& field : type.fields()) {
    if (folds(*field->type())) return true;
  }
  return false;
}

// How many bytes the first n values of a column come to, for each n.
class Unfolded {
 public:
  static arrow::Result<Unfolded> of(const arrow::ArrayData& data) {
    Unfolded sums;
    ARROW_RETURN_NOT_OK(sums.fill(data));
    return sums;
  }

  int64_t between(int64_t begin, int64_t end) const {
    if (sums_.empty()) return (end - begin) * each_;
    return sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)];
  }

 private:
  static constexpr int64_t MOST = int64_t{1} << 40;  // so that no sum of few can wrap around

  arrow::Status fill(const arrow::ArrayData& data) {
    switch (data.type->id()) {
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return ranges<int32_t>(data, bytes_alone());
      case arrow::Type::LARGE_STRING:
      case arrow::Type::LARGE_BINARY: return ranges<int64_t>(data, bytes_alone());
      case arrow::Type::LIST:
      case arrow::Type::MAP: return children(data, &Unfolded::ranges<int32_t>);
      case arrow::Type::LARGE_LIST: return children(data, &Unfolded::ranges<int64_t>);
      case arrow::Type::LIST_VIEW: return children(data, &Unfolded::windows<int32_t>);
      case arrow::Type::LARGE_LIST_VIEW: return children(data, &Unfolded::windows<int64_t>);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW: return views(data);
      case arrow::Type::FIXED_SIZE_LIST: return fixed_lists(data);
      case arrow::Type::STRUCT:
      case arrow::Type::SPARSE_UNION: return beside(data);
      case arrow::Type::DENSE_UNION: return unions(data);
      case arrow::Type::RUN_END_ENCODED: return runs(data);
      default: break;
    }
    each_ = std::max<int64_t>(1, data.type->byte_width());
    return data.dictionary == nullptr ? arrow::Status::OK() : check(*data.dictionary);
  }

  static arrow::Status check(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded sums, of(data));
    return sums.between(0, data.length) > UNFOLDED_BYTES_MAX ? too_much() : arrow::Status::OK();
  }

  static Unfolded bytes_alone() {
    Unfolded bytes;
    bytes.each_ = 1;
    return bytes;
  }

  // `size(i)` bytes for each value.
  template <class SizeOf>
  arrow::Status sum(int64_t n, SizeOf size) {
    sums_.resize(static_cast<size_t>(n) + 1);
    for (int64_t i = 0, total = 0; i < n; ++i) {
      total += size(i);
      if (total > MOST) return too_much();
      sums_[static_cast<size_t>(i) + 1] = total;
    }
    return arrow::Status::OK();
  }

  using Fill = arrow::Status (Unfolded::*)(const arrow::ArrayData&, const Unfolded& values);
  arrow::Status children(const arrow::ArrayData& data, Fill fill) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded values, of(*data.child_data[0]));
    return (this->*fill)(data, values);
  }

  template <class Offset>
  arrow::Status ranges(const arrow::ArrayData& data, const Unfolded& values) {
    const Raw<Offset>* from = values_of<Offset>(data, 1);
    return sum(data.length, [&](int64_t i) {
      return static_cast<int64_t>(sizeof(Offset)) + values.between(from[i], from[i + 1]);
    });
  }

  template <class Offset>
  arrow::Status windows(const arrow::ArrayData& data, const Unfolded& values) {
    const Raw<Offset>* from = values_of<Offset>(data, 1);
    const Raw<Offset>* sizes = values_of<Offset>(data, 2);
    return sum(data.length, [&](int64_t i) {
      return static_cast<int64_t>(2 * sizeof(Offset)) +
             values.between(from[i], int64_t{from[i]} + sizes[i]);
    });
  }

  arrow::Status views(const arrow::ArrayData& data) {
    const Raw<int32_t>* view = values_of<int32_t>(data, 1, 4 * data.offset);
    return sum(data.length, [&](int64_t i) {
      const int32_t size = view[4 * i];
      return 16 + (data.IsValid(i) && size > 12 ? size : 0);
    });
  }

  arrow::Status fixed_lists(const arrow::ArrayData& data) {
    const int64_t width = static_cast<const arrow::FixedSizeListType&>(*data.type).list_size();
    ARROW_ASSIGN_OR_RAISE(const Unfolded values, of(*data.child_data[0]));
    return sum(data.length, [&](int64_t i) {
      const int64_t begin = (data.offset + i) * width;
      return 1 + values.between(begin, begin + width);
    });
  }

  arrow::Status beside(const arrow::ArrayData& data) {
    std::vector<Unfolded> columns;
    for (const auto& child : data.child_data) {
      ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), of(*child));
    }
    return sum(data.length, [&](int64_t i) {
      int64_t total = 1;
      for (const Unfolded& column : columns) {
        total += column.between(data.offset + i, data.offset + i + 1);
      }
      return total;
    });
  }

  arrow::Status unions(const arrow::ArrayData& data) {
    std::vector<Unfolded> columns;
    for (const auto& child : data.child_data) {
      ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), of(*child));
    }
    const auto& ids = static_cast<const arrow::UnionType&>(*data.type).child_ids();
    const int8_t* codes = data.GetValues<int8_t>(1);
    const Raw<int32_t>* at = values_of<int32_t>(data, 2);
    return sum(data.length, [&](int64_t i) {
      const auto child = static_cast<size_t>(ids[static_cast<size_t>(codes[i])]);
      return 5 + columns[child].between(at[i], at[i] + 1);
    });
  }

  arrow::Status runs(const arrow::ArrayData& data) {
    switch (data.child_data[0]->type->id()) {
      case arrow::Type::INT16: return runs_of<int16_t>(data);
      case arrow::Type::INT32: return runs_of<int32_t>(data);
      default: return runs_of<int64_t>(data);
    }
  }

  template <class End>
  arrow::Status runs_of(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded values, of(*data.child_data[1]));
    const Raw<End>* ends = values_of<End>(*data.child_data[0], 1);
    int64_t run = 0;
    return sum(data.length, [&](int64_t i) {
      while (int64_t{ends[run]} <= data.offset + i) ++run;
      return 1 + values.between(run, run + 1);
    });
  }

  static arrow::Status too_much() {
    return fault("DataError", "the rows of a message come to more than " +
                                  std::to_string(UNFOLDED_BYTES_MAX >> 20) +
                                  " MiB once each has its values to itself; send fewer at once");
  }
  friend arrow::Status check_unfolded(const arrow::RecordBatch& batch);

  int64_t each_ = 0;  // without sums
  std::vector<int64_t> sums_;
};

// Bytes of the buffers of `data`; `fits` turns false when a column is much longer than those allow.
inline int64_t backing(const arrow::ArrayData& data, bool& fits) {
  int64_t n_bytes = 0;
  for (const auto& buffer : data.buffers) n_bytes += buffer == nullptr ? 0 : buffer->size();
  for (const auto& child : data.child_data) n_bytes += backing(*child, fits);
  if (data.dictionary != nullptr) n_bytes += backing(*data.dictionary, fits);
  fits = fits && data.length <= LENGTH_MAX + 8 * n_bytes;
  return n_bytes;
}

inline arrow::Status check_unfolded(const arrow::RecordBatch& batch) {
  for (const auto& column : batch.column_data()) {
    bool fits = true;
    backing(*column, fits);
    if (!fits) return Unfolded::too_much();
    if (folds(*column->type)) ARROW_RETURN_NOT_OK(Unfolded::check(*column));
  }
  return arrow::Status::OK();
}

}  // namespace fabric
