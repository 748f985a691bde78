// What the wire does with whole batches.
//
// One job: batches without rows, which events ride on; the checksum of a batch; and a batch as the
// kernels take it.
#pragma once
#include <arrow/c/abi.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>

namespace fabric {

bool has_dictionary(const arrow::DataType& type);

// A batch without rows, its columns of exactly the schema's types.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> empty_rows(
    const std::shared_ptr<arrow::Schema>& schema);

// The CRC32C of a batch as it means, see `crc32c.hpp`.
arrow::Result<uint32_t> crc32c_of(const arrow::RecordBatch& batch, int cpu);

// Arrow's C structs of a batch, released with their holder.
struct Exported {
  ArrowArray array{};
  ArrowSchema schema{};

  Exported() = default;
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported();
  arrow::Status fill(const arrow::RecordBatch& batch);
};

}  // namespace fabric
