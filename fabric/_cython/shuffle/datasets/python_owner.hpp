// Owners that Python writes to: a `PutWriter` behind an `OwnerWriter`.
//
// One job: calls that take the GIL, one a message; owners.pyx defines them.
#pragma once
#include <functional>

#include "datasets/owner.hpp"
#include "flight/asking.hpp"

namespace fabric {

struct OwnerCalls {
  arrow::Status (*write)(PyObject*, uint32_t partition,
                         const std::shared_ptr<arrow::RecordBatch>& batch) = nullptr;
  arrow::Status (*seal)(PyObject*, Receipt& out) = nullptr;
  void (*abandon)(PyObject*) = nullptr;
};

class PythonOwner final : public OwnerWriter {
 public:
  PythonOwner(PyRef object, const OwnerCalls& calls) : object_(std::move(object)), calls_(calls) {}

  arrow::Status write(uint32_t partition,
                      const std::shared_ptr<arrow::RecordBatch>& batch) override {
    return calls_.write(object_.get(), partition, batch);
  }
  arrow::Result<Receipt> seal() override {
    Receipt receipt;
    ARROW_RETURN_NOT_OK(calls_.seal(object_.get(), receipt));
    return receipt;
  }
  void abandon() override { calls_.abandon(object_.get()); }

 private:
  PyRef object_;
  OwnerCalls calls_;
};

inline std::shared_ptr<OwnerWriter> python_owner(PyRef object, const OwnerCalls& calls) {
  return std::make_shared<PythonOwner>(std::move(object), calls);
}

// How a `Spread` opens an owner by way of Python.
using OpenCall = arrow::Status (*)(PyObject*, const std::string& owner,
                                   std::shared_ptr<OwnerWriter>& out);

inline std::function<arrow::Result<std::shared_ptr<OwnerWriter>>(const std::string&)> opened_by(
    PyRef object, OpenCall call) {
  return [object, call](const std::string& owner) -> arrow::Result<std::shared_ptr<OwnerWriter>> {
    std::shared_ptr<OwnerWriter> opened;
    ARROW_RETURN_NOT_OK(call(object.get(), owner, opened));
    return opened;
  };
}

}  // namespace fabric
