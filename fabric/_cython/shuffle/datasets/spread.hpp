// Spreading rows of one writer over the owners of a dataset.
//
// One job: split batches by the dataset's keys, gather them to messages of about 1 MiB per
// partition, and send each to all owners of the partition. Memory is bounded by `held_bytes_max`,
// whatever the number of partitions. One thread uses it; it never needs the GIL. Beside it is what
// else a put asks of a dataset's location and keys: clients that split rows themselves are checked.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "datasets/owner.hpp"

namespace fabric {

class Allocator;
struct DatasetLocation;
using DatasetPtr = std::shared_ptr<const DatasetLocation>;

// A location from the coordinator's protobuf.
arrow::Result<DatasetPtr> decode_location(const std::string& bytes);

// Every partition has owners, as many as there are replicas, or fewer for the moment.
arrow::Status check_owners(const DatasetLocation& location);

// Every owner must be connected before rows are sent to any.
arrow::Status check_addresses(const DatasetLocation& location,
                              const std::map<std::string, std::string>& addresses);

constexpr int64_t HELD_BYTES_MAX = 32 << 20;

// One attempt of one writer; end it with `seal` or `abandon`. Every partition is written, also
// those without a row, so that a reader can tell "none" from "lost".
class Spread {
 public:
  using Open = OpenOwner;

  static arrow::Result<std::unique_ptr<Spread>> begin(DatasetPtr location, Open open,
                                                      Allocator& allocator, int cpu,
                                                      int64_t held_bytes_max = HELD_BYTES_MAX);
  virtual ~Spread() = default;

  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  virtual uint64_t rows() const = 0;

  // Send the rows of `batch` on their way; it must have the dataset's schema.
  virtual arrow::Status write(const std::shared_ptr<arrow::RecordBatch>& given) = 0;

  // Wait until all rows lie durably with all their owners; each row counts once.
  virtual arrow::Result<Receipt> seal() = 0;

  // Give up; nothing stays with any owner. Does nothing after `seal`.
  virtual void abandon() = 0;
};

// Positions of the key columns; refuses unknown and ambiguous ones.
arrow::Result<std::vector<int32_t>> key_indices(const arrow::Schema& schema,
                                                const std::vector<std::string>& keys);

// An error of an owner, which names it by its id and not by its address. Here and below, anything
// that `fault` did not make stays as it is.
arrow::Status at_owner(const arrow::Status& status, const std::string& owner);

// An error of a put to `dataset` by way of `agent`.
arrow::Status of_put(const arrow::Status& status, const std::string& dataset,
                     const std::string& agent);

}  // namespace fabric
