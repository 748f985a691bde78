// A batch as the kernels take it: Arrow's C structs, released with their holder.
#pragma once
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>

namespace fabric {

struct Exported {
  ArrowArray array{};
  ArrowSchema schema{};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() {
    if (array.release != nullptr) array.release(&array);
    if (schema.release != nullptr) schema.release(&schema);
  }
  arrow::Status fill(const arrow::RecordBatch& batch) {
    return arrow::ExportRecordBatch(batch, &array, &schema);
  }
};

}  // namespace fabric
