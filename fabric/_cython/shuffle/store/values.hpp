// The values of an array of Arrow's, wherever their buffer lies.
//
// One job: from a buffer to values that need not be aligned, and what a type is stored as.
#pragma once
#include <arrow/array/data.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>

#include "arrays.hpp"

namespace fabric {

// Buffer `index` from value `first` on, counted from the start of the buffer.
template <class T>
const Raw<T>* values_of(const arrow::ArrayData& data, int index, int64_t first) {
  return reinterpret_cast<const Raw<T>*>(
      data.GetValues<uint8_t>(index, first * static_cast<int64_t>(sizeof(T))));
}

// From the array's own offset on.
template <class T>
const Raw<T>* values_of(const arrow::ArrayData& data, int index) {
  return values_of<T>(data, index, data.offset);
}

// An extension type's storage; any other type itself.
inline const arrow::DataType& stored_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::EXTENSION) return type;
  return stored_type(*static_cast<const arrow::ExtensionType&>(type).storage_type());
}

// What `use` makes of the ends of a column's runs, all of them: also those before a slice.
template <class Use>
auto with_run_ends(const arrow::ArrayData& column, Use&& use) {
  const arrow::ArrayData& ends = *column.child_data[0];
  switch (ends.type->id()) {
    case arrow::Type::INT16: return use(values_of<int16_t>(ends, 1));
    case arrow::Type::INT32: return use(values_of<int32_t>(ends, 1));
    default: return use(values_of<int64_t>(ends, 1));
  }
}

}  // namespace fabric
