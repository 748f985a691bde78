// Numbers of groups, over batches of keys that come one after another.
//
// One job: `Groups`, a face of Arrow's grouper. One thread at a time. Errors are C++ exceptions,
// which Cython turns into Python's.
#pragma once
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>

namespace arrow::compute {
class Grouper;
}

namespace fabric {

class Groups {
 public:
  explicit Groups(std::shared_ptr<arrow::Schema> keys);
  ~Groups();

  // The group of each row of `keys`, into `out`.
  void number(const arrow::RecordBatch& keys, uint32_t* out);

  // How many groups there are: all numbers are smaller.
  int64_t size() const;

 private:
  std::shared_ptr<arrow::Schema> keys_;
  std::unique_ptr<arrow::compute::Grouper> grouper_;
};

}  // namespace fabric
