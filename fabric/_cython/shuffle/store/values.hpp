// The values of an array of Arrow's, wherever their buffer lies.
//
// One job: from a buffer to values that need not be aligned.
#pragma once
#include <arrow/array/data.h>

#include "raw.hpp"

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
