// Arrow's side of the pipes: sizes and owners of buffers.
#include "ring/batches.hpp"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "store/size.hpp"
#include "store/values.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

// ---- Batches whose buffers belong to Python objects, copied before they go to a native consumer:
// the destructor of such a buffer (numpy, bytes) takes the GIL, so a native thread that drops the
// last reference would wait for whatever Python does. Only the rows of the slice are copied. Data
// buffers of views and dictionaries stay as they are.

bool of_python(const arrow::ArrayData& column) {
  return std::ranges::any_of(column.buffers,
                             [](const auto& buffer) { return python_owns(buffer.get()); }) ||
         std::ranges::any_of(column.child_data,
                             [](const auto& child) { return of_python(*child); });
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> without_python(
    std::shared_ptr<arrow::RecordBatch> batch) {
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (!of_python(*batch->column_data(i))) continue;
    ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate({batch->column(i)}));
    ARROW_ASSIGN_OR_RAISE(batch, batch->SetColumn(i, batch->schema()->field(i), column));
  }
  return batch;
}

// ---- How many bytes the rows of a batch are: what a ring and its edge count. A size that costs
// tens of nanoseconds, for it is asked for every batch of every partition. It counts what the rows
// refer to, not the buffers that they share with other slices; rare types are left to the store's
// measure. (Arrow's own `ReferencedBufferSize` takes thousands, and reads the offsets of empty
// lists that have come by a wire, where there are none.)

template <class Offset>
int64_t size_of_binary(const arrow::ArrayData& column) {
  const Raw<Offset>* offsets = values_of<Offset>(column, 1);
  const int64_t values = offsets[column.length] - offsets[0];
  return values + column.length * static_cast<int64_t>(sizeof(Offset));  // as Arrow counts them
}

int64_t size_of(const arrow::ArrayData& column) {
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
  return fabric::size_of(column, 0, column.length).total();
}

uint64_t size_of(const arrow::RecordBatch& batch) {
  int64_t sum = 0;
  for (int i = 0; i < batch.num_columns(); ++i) sum += size_of(*batch.column_data(i));
  return static_cast<uint64_t>(sum);
}

}  // namespace

BatchItem rows_item(uint32_t producer, std::shared_ptr<arrow::RecordBatch> batch) {
  BatchItem item;
  item.producer = producer;
  item.rows = static_cast<uint64_t>(batch->num_rows());
  item.bytes = size_of(*batch);
  item.payload = std::move(batch);
  return item;
}

BatchItem event_item(uint32_t producer, Kind kind, int64_t value, uint64_t total_rows) {
  BatchItem item;
  item.producer = producer;
  item.kind = kind;
  item.value = value;
  item.rows = total_rows;
  return item;
}

Deadline deadline_in(double seconds) {
  constexpr double YEAR_S = 365.0 * 24 * 3600;
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, YEAR_S));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

arrow::Status BatchPipes::add(BatchPort* port, uint32_t producer,
                              std::shared_ptr<arrow::RecordBatch> batch, Putting& put) const {
  if (port->native()) {
    ARROW_ASSIGN_OR_RAISE(batch, without_python(std::move(batch)));
  }
  put.sends.push_back({port, rows_item(producer, std::move(batch))});
  return arrow::Status::OK();
}

arrow::Status BatchPipes::add_parts(uint32_t edge, uint32_t producer,
                                    const std::shared_ptr<arrow::RecordBatch>& batch,
                                    std::span<const int64_t> offsets, Putting& put) const {
  std::vector<BatchPort*> ports;
  ARROW_RETURN_NOT_OK(status(find_all(edge, ports)));
  if (!offsets.empty() && offsets.size() != ports.size() + 1) {
    return status(bug(
        "edge " + std::to_string(edge) + " has " + std::to_string(ports.size()) + " partitions, " +
        std::to_string(offsets.size()) + " offsets were given"));
  }
  if (!offsets.empty() && (offsets.front() < 0 || offsets.back() > batch->num_rows() ||
                           !std::ranges::is_sorted(offsets))) {
    return status(bug("offsets that are not those of the batch"));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const int64_t n = offsets.empty() ? batch->num_rows() : offsets[i + 1] - offsets[i];
    if (n == 0) continue;
    auto rows = n == batch->num_rows() ? batch : batch->Slice(offsets[i], n);
    ARROW_RETURN_NOT_OK(add(ports[i], producer, std::move(rows), put));
  }
  return arrow::Status::OK();
}

arrow::Status BatchPipes::status(const Refusal& refused) const {
  return refused ? fault(refused.kind, refused.text, {.job = job_}) : arrow::Status::OK();
}

arrow::Status BatchPipes::cancellation() {
  Taking nothing;
  return status(take_now({}, 0, nothing));
}

Refusal BatchPipes::rest(std::span<BatchPort* const> ports, int64_t until, bool& due,
                         Deadline deadline) {
  for (BatchPort* port : ports) port->set_silent(until);
  Waiter waiter;
  return rest(ports, until, waiter, due, deadline);
}

void BatchPipes::close(BatchPort& port) {
  std::vector<BatchItem> dropped;
  port.close(dropped);
}

void BatchPipes::cancel(std::string reason) {
  std::vector<BatchItem> dropped;
  Pipes::cancel(std::move(reason), dropped);
}

}  // namespace fabric
