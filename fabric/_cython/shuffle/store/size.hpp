// The bytes of a batch: how many count, and copies that hold no others.
//
// One job: what budgets, messages and totals are measured in, and batches as small as that. Decoded
// bytes of a range of rows are the same on both ends of a wire, and cost next to no time for plain
// types (views, unions and list views are walked); offsets count one a row, so that bytes of slices
// add up. Dictionaries count apart: slices share them, and a stream sends them once.
#pragma once
#include <arrow/type_fwd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace fabric {

struct Size {
  using Dictionary = std::pair<const arrow::ArrayData*, int64_t>;
  int64_t body = 0;
  std::vector<Dictionary> dictionaries;  // each once, with its bytes

  void add_dictionary(const Dictionary& found) {
    if (std::find(dictionaries.begin(), dictionaries.end(), found) == dictionaries.end()) {
      dictionaries.push_back(found);
    }
  }
  int64_t shared() const {
    int64_t total = 0;
    for (const Dictionary& dictionary : dictionaries) total += dictionary.second;
    return total;
  }
  int64_t total() const { return body + shared(); }
};

// Rows [row, row + n) of a column, counted from its own offset.
Size size_of(const arrow::ArrayData& data, int64_t row, int64_t n);

// Rows [row, row + n) of a batch.
Size size_of(const arrow::RecordBatch& batch, int64_t row, int64_t n);

// Decoded bytes of a batch, dictionaries included.
int64_t bytes_of_batch(const arrow::RecordBatch& batch);

// The same rows with nothing beside them, at any depth: a slice of views refers to all bytes of its
// batch, and a dictionary comes whole with any of its rows; each of a thousand slices would carry
// them all. What a quarter or less of is waste stays as it is: `batch` itself when there is little
// to gain. Lists may refer to more than their rows, so nested columns are copied first, unless they
// are copies.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> compacted(
    std::shared_ptr<arrow::RecordBatch> batch, bool is_copy);

// Whether `buffer` or what it was sliced from belongs to a Python object: is of a class of
// arrow::py.
bool python_owns(const arrow::Buffer* buffer);

// `batch` itself when nothing of it is Python's; else with those columns copied, because giving
// back what numpy or bytes own takes the GIL, from whatever thread does it. Call it at the door of
// everything that native threads empty. Batches that came through the C data interface are not
// looked into.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> owned(
    std::shared_ptr<arrow::RecordBatch> batch);

}  // namespace fabric
