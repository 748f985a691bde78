// Where a dataset's rows go, as the coordinator says.
//
// One job: the schema and the addresses of a location.
#pragma once
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>

#include "flight/locations.hpp"
#include "flight/text.hpp"

namespace fabric {

inline arrow::Result<std::shared_ptr<arrow::Schema>> schema_of_location(
    const DatasetLocation& location) {
  arrow::io::BufferReader reader{arrow::Buffer::FromString(location.schema)};
  arrow::ipc::DictionaryMemo memo;
  return arrow::ipc::ReadSchema(&reader, &memo);
}

// A location from the coordinator's protobuf.
inline arrow::Result<DatasetPtr> decode_location(const std::string& bytes) {
  std::vector<DatasetPtr> all;
  if (decode_dataset(bytes, all) && !all.empty()) return all[0];
  return fault("InternalError", "the location of a dataset is damaged");
}

// Every partition has owners, as many as there are replicas, or fewer for the moment.
inline arrow::Status check_owners(const DatasetLocation& location) {
  if (!location.whole()) {
    return fault("InternalError", "dataset " + quoted(location.name) + " has " +
                                      std::to_string(location.owners.size()) + " owners for " +
                                      std::to_string(location.n_partitions) +
                                      " partitions with " + std::to_string(location.replicas) +
                                      " replicas each");
  }
  for (uint32_t partition = 0; partition < location.n_partitions; ++partition) {
    const auto owners = location.owners_of(partition);
    if (!std::ranges::all_of(owners, [](const auto& owner) { return owner.empty(); })) continue;
    return fault("InternalError", "partition " + std::to_string(partition) + " of dataset " +
                                      quoted(location.name) + " has no owner");
  }
  return arrow::Status::OK();
}

// Every owner must be connected before rows are sent to any.
inline arrow::Status check_addresses(const DatasetLocation& location,
                                     const std::map<std::string, std::string>& addresses) {
  ARROW_RETURN_NOT_OK(check_owners(location));
  for (const std::string& owner : location.owners) {
    if (owner.empty() || addresses.contains(owner)) continue;
    return fault("PeerLostError", "agent " + owner + " owns partitions of dataset " +
                                      quoted(location.name) +
                                      " and is not connected; start it again, or overwrite the "
                                      "dataset",
                 {.agent = owner});
  }
  return arrow::Status::OK();
}

}  // namespace fabric
