// The values of an array, wherever their buffer lies.
//
// One job: buffers that came with a message need not be aligned, and a compiler may rely on it that
// a `const int32_t*` is.
#pragma once
#include <arrow/array/data.h>

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

}  // namespace fabric
