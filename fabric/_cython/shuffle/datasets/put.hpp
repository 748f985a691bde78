// DoPut: rows into a dataset.
//
// One job: three kinds of put. A client's put of one attempt is checked, split by the dataset's
// keys and sent to the owners; a plain one is begin (append) + put + commit; a put to an owner, of
// rows that an agent or the client has split already, is written here. Each is acknowledged once,
// at the end, as JSON: `rows` and `crc32c_sum`, the sum of the CRC32Cs of the batches modulo 2^32.
// A stream that breaks off leaves nothing.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "wire/python.hpp"

namespace fabric {

class Allocator;
class DatasetFolder;
class Directory;
class OwnerWriter;
struct Handlers;
struct PutPath;

// Control calls, by Python (puts.pyx); each takes the GIL. Locations are their protobuf.
struct PutCalls {
  PyRef face;
  arrow::Status (*transaction)(PyObject*, const std::string& name, const std::string& transaction,
                               std::string& location) = nullptr;
  arrow::Status (*begin)(PyObject*, const std::string& name, const std::string& schema,
                         std::string& transaction, std::string& location) = nullptr;
  arrow::Status (*commit)(PyObject*, const PutPath& put, uint64_t rows,
                          uint64_t& version) = nullptr;
  void (*undo)(PyObject*, const std::string& transaction, const std::string& location) = nullptr;
  arrow::Status (*open)(PyObject*, const PutPath& put, const std::string& address,
                        const std::shared_ptr<arrow::Schema>& schema,
                        std::shared_ptr<OwnerWriter>& out) = nullptr;
  arrow::Status (*reach)(const char* failpoint) = nullptr;  // in tests only: else null
};

struct PutBackend {
  PutCalls calls;
  std::shared_ptr<DatasetFolder> folder;
  std::shared_ptr<Directory> table;
  std::string agent_id;
  Allocator* allocator;  // kept by who uses this
};

// Datasets of `folder` behind the verbs of a server; other tickets go where they went before.
void set_datasets(Handlers& handlers, PutBackend backend);

}  // namespace fabric
