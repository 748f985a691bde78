// How many bytes the rows of a batch are: what a ring and its edge count.
//
// One job: a size that costs tens of nanoseconds, for it is asked for every batch of every
// partition. It counts what the rows refer to, not the buffers that they share with other slices;
// rare types are left to the store's measure. (Arrow's own `ReferencedBufferSize` takes thousands,
// and reads the offsets of empty lists that have come by a wire, where there are none.)
#pragma once
#include <arrow/array/data.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include "store/size.hpp"

namespace fabric {

template <class Offset>
int64_t size_of_binary(const arrow::ArrayData& column) {
  const Raw<Offset>* offsets = values_of<Offset>(column, 1);
  const int64_t values = offsets[column.length] - offsets[0];
  return values + column.length * static_cast<int64_t>(sizeof(Offset));  // as Arrow counts them
}

inline int64_t size_of(const arrow::ArrayData& column) {
  if (column.length == 0 || column.type->id() == arrow::Type::NA) return 0;
  const int64_t bitmap =
      column.buffers[0] == nullptr ? 0 : arrow::bit_util::BytesForBits(column.length);
  switch (column.type->id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY: return bitmap + size_of_binary<int32_t>(column);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY: return bitmap + size_of_binary<int64_t>(column);
    default: break;
  }
  if (arrow::is_primitive(column.type->id()) || arrow::is_decimal(column.type->id()) ||
      column.type->id() == arrow::Type::FIXED_SIZE_BINARY) {
    return bitmap + arrow::bit_util::BytesForBits(column.length * column.type->bit_width());
  }
  Size size;
  Measure(size).add(column, 0, column.length);
  return size.total();
}

inline uint64_t size_of(const arrow::RecordBatch& batch) {
  int64_t sum = 0;
  for (int i = 0; i < batch.num_columns(); ++i) sum += size_of(*batch.column_data(i));
  return static_cast<uint64_t>(sum);
}

}  // namespace fabric
