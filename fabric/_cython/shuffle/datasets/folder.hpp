// The dataset files of one agent.
//
// One job: `DatasetFolder`, what is where below a folder:
//
//     <dataset>/<transaction>/<writer>-<attempt>.manifest          there = sealed
//     <dataset>/<transaction>/<writer>-<attempt>-<random>/p00003.arrows
//     <dataset>/<transaction>/<writer>-<attempt>.p00004.manifest   partition 4, copied here
//     <dataset>/<transaction>/<writer>-<attempt>.p00004-<random>/p00004.arrows
//
// A partition copied from another owner is sealed by a manifest of its own, beside that of what was
// written here: neither is ever changed for the other, and a copy can be made or removed at once.
// Which attempts belong to a version is the coordinator's knowledge and comes with each ticket.
// Names come from outside: each is checked again here, and nothing outside the folder is ever
// touched. Thread-safe; no call needs the GIL.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/python.hpp"

namespace fabric {

class MessageStream;
class OwnerWriter;
struct DatasetPart;
struct DatasetTicket;

using TransactionKey = std::pair<std::string, std::string>;  // dataset name, transaction

class DatasetFolder {
 public:
  static arrow::Result<std::shared_ptr<DatasetFolder>> open(const std::string& path,
                                                            std::string agent, int cpu);
  virtual ~DatasetFolder() = default;

  virtual std::string root() const = 0;
  virtual int cpu() const = 0;
  // For tests: from now on the disk refuses a step (`DiskStep`) with this errno; 0 ends that.
  virtual void fail_at(size_t step, int error) = 0;

  // Asked before a partition of a view (whose transactions are called "view.…") is looked for: it
  // may be written only now.
  using Wanted = std::function<arrow::Status(const std::string& name,
                                             const std::string& transaction, uint32_t partition)>;
  virtual void set_wanted(Wanted wanted) = 0;

  // Begin one attempt; an earlier try of the same one stays until this one is sealed.
  virtual arrow::Result<std::shared_ptr<OwnerWriter>> open_write(
      const std::string& name, const std::string& transaction, const std::string& writer,
      uint32_t attempt, std::shared_ptr<arrow::Schema> schema) = 0;

  // Begin to copy one partition of a sealed attempt from another owner; written as any attempt is.
  virtual arrow::Result<std::shared_ptr<OwnerWriter>> open_copy(
      const DatasetTicket& ticket, std::shared_ptr<arrow::Schema> schema) = 0;

  // Whether the partition was sealed here by every part of the ticket.
  virtual arrow::Result<bool> has(const DatasetTicket& ticket) const = 0;

  // The rows of one partition, part by part. All of it is checked before the first row:
  // PartitionLostError names a part that is not here, DataError a file that is damaged or cut
  // short. `schema` is that of a dataset without parts.
  virtual arrow::Result<std::unique_ptr<MessageStream>> read(const DatasetTicket& ticket,
                                                             std::shared_ptr<arrow::Schema> schema,
                                                             bool headers) = 0;

  // Remove what a transaction left here; it takes no more. Streams that read it go on.
  virtual arrow::Status discard(const std::string& name, const std::string& transaction) = 0;

  // Remove what these parts hold here of other partitions than `kept`. Streams that have opened
  // their files go on; nothing of a part that is not named is touched.
  virtual arrow::Status keep(const std::string& name, const std::set<uint32_t>& kept,
                             const std::vector<DatasetPart>& parts) = 0;

  // Remove transactions that are not `live` and that nobody used for `age_s`. A transaction's age
  // counts from the first sweep that saw it unused, and anew when somebody writes to it.
  virtual std::vector<std::string> sweep(const std::set<TransactionKey>& live, double now_s,
                                         double age_s) = 0;
};

// A function of Python's that takes the GIL.
using WantedCall = arrow::Status (*)(PyObject* face, const std::string& name,
                                     const std::string& transaction, uint32_t partition);
DatasetFolder::Wanted wanted_by(PyRef face, WantedCall call);

}  // namespace fabric
