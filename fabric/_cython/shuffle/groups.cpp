// Numbers of groups, by Arrow's grouper.
#include "groups.hpp"

#include <arrow/array.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/row/grouper.h>
#include <arrow/record_batch.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fabric {
namespace {

template <typename T>
T value_of(arrow::Result<T> result) {
  if (result.ok()) return std::move(result).ValueUnsafe();
  if (result.status().IsOutOfMemory()) throw std::bad_alloc();
  throw std::runtime_error(result.status().ToString());
}

}  // namespace

Groups::Groups(std::shared_ptr<arrow::Schema> keys) : keys_(std::move(keys)) {
  std::vector<arrow::TypeHolder> types;
  for (const auto& field : keys_->fields()) types.emplace_back(field->type());
  if (types.empty()) throw std::invalid_argument("groups need at least one key, got none");
  grouper_ = value_of(arrow::compute::Grouper::Make(types));
}

Groups::~Groups() = default;

void Groups::number(const arrow::RecordBatch& keys, uint32_t* out) {
  if (!keys.schema()->Equals(*keys_, false)) {
    throw std::invalid_argument("keys of another schema: wanted " + keys_->ToString() +
                                ", got " + keys.schema()->ToString());
  }
  if (keys.num_rows() == 0) return;
  const arrow::compute::ExecBatch batch(keys);
  const auto found = value_of(grouper_->Consume(arrow::compute::ExecSpan(batch)));
  const uint32_t* numbers = found.array()->GetValues<uint32_t>(1);
  std::copy(numbers, numbers + keys.num_rows(), out);
}

int64_t Groups::size() const { return grouper_->num_groups(); }

}  // namespace fabric
