// A put on its way to one owner of dataset partitions.
//
// One job: the shape, and the owners that are not in this process: Python's, by calls that take the
// GIL once a message (spread.pyx defines them), and those on other agents, without Python on the
// way. The owner in this process is `PartWriter` (part_writer.hpp).
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

typedef struct _object PyObject;  // of Python.h, which writers to owners need not read

namespace fabric {

class PutCall;
class PyRef;

// What one owner sealed of one writer attempt; the sum is that of the batches' CRC32Cs, mod 2^32.
struct Receipt {
  uint64_t rows = 0;
  uint32_t crc32c_sum = 0;

  void add(const Receipt& more) {
    rows += more.rows;
    crc32c_sum += more.crc32c_sum;
  }
};

// One thread writes; end it with `seal` or `abandon`. An `abandon` after either does nothing.
class OwnerWriter {
 public:
  virtual ~OwnerWriter() = default;
  // Rows of one partition; no rows say that the partition has none.
  virtual arrow::Status write(uint32_t partition,
                              const std::shared_ptr<arrow::RecordBatch>& batch) = 0;
  // `crc32c` is that of the batch when the caller knows it already; not every owner wants it.
  virtual arrow::Status write_checked(uint32_t partition,
                                      const std::shared_ptr<arrow::RecordBatch>& batch,
                                      std::optional<uint32_t> /* crc32c */) {
    return write(partition, batch);
  }
  // Wait until everything lies durably at the owner.
  virtual arrow::Result<Receipt> seal() = 0;
  // Give up; the owner keeps nothing.
  virtual void abandon() = 0;
};

struct OwnerCalls {
  arrow::Status (*write)(PyObject*, uint32_t partition,
                         const std::shared_ptr<arrow::RecordBatch>& batch) = nullptr;
  arrow::Status (*seal)(PyObject*, Receipt& out) = nullptr;
  void (*abandon)(PyObject*) = nullptr;
};

std::shared_ptr<OwnerWriter> python_owner(PyRef object, const OwnerCalls& calls);

// `face` is what ends the put when nobody has it any more.
std::shared_ptr<OwnerWriter> remote_owner(std::shared_ptr<PutCall> put, std::string address,
                                          PyRef face);

// How a `Spread` opens an owner, and how it does so by way of Python.
using OpenOwner =
    std::function<arrow::Result<std::shared_ptr<OwnerWriter>>(const std::string& owner)>;
using OpenCall = arrow::Status (*)(PyObject*, const std::string& owner,
                                   std::shared_ptr<OwnerWriter>& out);

OpenOwner opened_by(PyRef object, OpenCall call);

}  // namespace fabric
