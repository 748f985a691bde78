// What is let in from clients that are no agents.
//
// One job: pure checks of one schema or batch. Bytes from outside may lie about offsets, which
// would kill a kernel.
#pragma once
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <string>

namespace fabric {

// At most so many bytes of the first line of `text`, and none behind what is no UTF-8.
std::string first_line(const std::string& text, size_t n_max);

// Names and types, for messages.
std::string columns_text(const arrow::Schema& schema);

// A DataError when a schema from outside is not one to work with.
arrow::Status check_foreign_schema(const arrow::Schema& schema);

// A DataError unless every value of a batch from outside can be read safely.
arrow::Status check_foreign_batch(const arrow::RecordBatch& batch, const arrow::Schema& schema);

// The stream of a put must have the columns of its dataset.
arrow::Status check_columns(const arrow::Schema& given, const arrow::Schema& expected,
                            const std::string& name);

}  // namespace fabric
