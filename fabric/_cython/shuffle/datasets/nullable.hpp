// Nulls where a schema from outside allows none, at any depth.
//
// One job: find them. A column's own nulls are easy; those inside of structs and lists count only
// where no null around hides them. Dictionaries, unions and runs have nulls without a bitmap.
#pragma once
#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "flight/text.hpp"
#include "store/values.hpp"
#include "wire/fault.hpp"

namespace fabric {

using Seen = std::vector<bool>;  // by row: whether nothing around it is null

inline bool is_null_at(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return true;
  if (array.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
  return is_null_at(*encoded.dictionary(), encoded.GetValueIndex(i));
}

// Whether a field inside of this type promises to have no nulls.
inline bool is_strict_inside(const arrow::DataType& type) {
  for (const auto& field : type.fields()) {
    if (!field->nullable() || is_strict_inside(*field->type())) return true;
  }
  return false;
}

inline bool keeps_promise(const arrow::Field& field, const arrow::Array& array, const Seen& seen);

inline bool keeps_promises(const arrow::StructArray& array, const Seen& seen) {
  Seen inside = seen;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) inside[static_cast<size_t>(i)] = false;
  }
  for (int i = 0; i < array.num_fields(); ++i) {
    if (!keeps_promise(*array.struct_type()->field(i), *array.field(i), inside)) return false;
  }
  return true;
}

// Which values list `i` holds.
inline std::pair<int64_t, int64_t> range_of(const arrow::FixedSizeListArray& array, int64_t i) {
  return {array.value_offset(i), array.value_offset(i + 1)};
}
template <class List>
std::pair<int64_t, int64_t> range_of(const List& array, int64_t i) {
  const auto* from = values_of<typename List::offset_type>(*array.data(), 1);
  return {from[i], from[i + 1]};
}

template <class List>
bool keeps_promises(const List& array, const Seen& seen) {
  const auto& values = *array.values();
  Seen inside(static_cast<size_t>(values.length()), false);
  for (int64_t i = 0; i < array.length(); ++i) {
    if (!seen[static_cast<size_t>(i)] || array.IsNull(i)) continue;
    const auto [begin, end] = range_of(array, i);
    std::fill(inside.begin() + begin, inside.begin() + end, true);
  }
  return keeps_promise(*array.list_type()->field(0), values, inside);
}

inline bool keeps_promise(const arrow::Field& field, const arrow::Array& array, const Seen& seen) {
  if (!field.nullable() && array.ComputeLogicalNullCount() > 0) {
    for (int64_t i = 0; i < array.length(); ++i) {
      if (seen[static_cast<size_t>(i)] && is_null_at(array, i)) return false;
    }
  }
  if (!is_strict_inside(*field.type())) return true;
  switch (array.type_id()) {
    case arrow::Type::STRUCT:
      return keeps_promises(static_cast<const arrow::StructArray&>(array), seen);
    case arrow::Type::LIST:
    case arrow::Type::MAP:
      return keeps_promises(static_cast<const arrow::ListArray&>(array), seen);
    case arrow::Type::LARGE_LIST:
      return keeps_promises(static_cast<const arrow::LargeListArray&>(array), seen);
    case arrow::Type::FIXED_SIZE_LIST:
      return keeps_promises(static_cast<const arrow::FixedSizeListArray&>(array), seen);
    default: return true;  // unions, runs and views of lists: nobody relies on what is inside
  }
}

// A DataError when a column holds nulls that `schema` does not allow.
inline arrow::Status check_nulls(const arrow::RecordBatch& batch, const arrow::Schema& schema) {
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    if (!field.nullable() && batch.column(i)->ComputeLogicalNullCount() > 0) {
      return fault("DataError",
                   "column " + quoted(field.name()) + " is not nullable but holds nulls");
    }
    if (!is_strict_inside(*field.type())) continue;
    const Seen all(static_cast<size_t>(batch.num_rows()), true);
    if (!keeps_promise(field, *batch.column(i), all)) {
      return fault("DataError", "column " + quoted(field.name()) +
                                    " holds nulls inside where its type allows none");
    }
  }
  return arrow::Status::OK();
}

}  // namespace fabric
