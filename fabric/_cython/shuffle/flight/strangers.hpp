// What is let in from clients that are no agents.
//
// One job: pure checks of one schema or batch. Bytes from outside may lie about offsets, which
// would kill a kernel.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <string>

namespace fabric {

// A DataError when a schema from outside is not one to work with.
arrow::Status check_foreign_schema(const arrow::Schema& schema);

// A DataError unless every value of a batch from outside can be read safely.
arrow::Status check_foreign_batch(const arrow::RecordBatch& batch, const arrow::Schema& schema);

// The stream of a put must have the columns of its dataset.
arrow::Status check_columns(const arrow::Schema& given, const arrow::Schema& expected,
                            const std::string& name);

}  // namespace fabric
