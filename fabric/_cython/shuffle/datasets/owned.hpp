// What a client may put straight to an owner of dataset partitions.
//
// One job: check the rows of one put before anything is done with them. Agents split rows
// themselves and are believed; a client of scope `write` may split them too (the Spark connector
// does), but only into partitions that are this agent's, and each row where the hash of its keys
// puts it.
#pragma once
#include <set>

#include "datasets/keys.hpp"
#include "datasets/location.hpp"
#include "datasets/strangers.hpp"
#include "wire/header.hpp"

namespace fabric {

class OwnedRows {
 public:
  static arrow::Result<std::unique_ptr<OwnedRows>> open(const DatasetPtr& location,
                                                        const std::string& agent,
                                                        const arrow::Schema& given, int cpu) {
    ARROW_RETURN_NOT_OK(check_foreign_schema(given));
    ARROW_RETURN_NOT_OK(check_owners(*location));
    ARROW_ASSIGN_OR_RAISE(auto schema, schema_of_location(*location));
    ARROW_RETURN_NOT_OK(check_columns(given, *schema, location->name));
    ARROW_ASSIGN_OR_RAISE(auto keys, key_indices(*schema, location->keys));
    return std::make_unique<OwnedRows>(location, agent, std::move(schema), std::move(keys), cpu);
  }

  OwnedRows(DatasetPtr location, std::string agent, std::shared_ptr<arrow::Schema> schema,
            std::vector<int32_t> keys, int cpu)
      : location_(std::move(location)), agent_(std::move(agent)), schema_(std::move(schema)),
        keys_(std::move(keys)), cpu_(cpu), seen_(location_->n_partitions) {}

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  // Whether a batch is safe to look at.
  arrow::Status check(const arrow::RecordBatch& batch) const {
    return check_foreign_batch(batch, *schema_);
  }

  // Whether the runs of `batch` lie where they belong; they cover it.
  arrow::Status place(const arrow::RecordBatch& batch, const std::vector<PartitionRows>& runs) {
    for (const PartitionRows& run : runs) {
      if (run.partition >= seen_.size() || !location_->owns(agent_, run.partition)) {
        return fault("DataError", "partition " + std::to_string(run.partition) + " of dataset " +
                                      quoted(location_->name) + " does not belong to agent " +
                                      agent_,
                     {.agent = agent_});
      }
      seen_[run.partition] = true;
    }
    if (keys_.empty() || batch.num_rows() == 0) return arrow::Status::OK();
    uint32_t found = 0;
    const auto n_partitions = static_cast<int32_t>(location_->n_partitions);
    ARROW_ASSIGN_OR_RAISE(const int64_t row,
                          misplaced_row(batch, keys_, n_partitions, runs, cpu_, found));
    return row < 0 ? arrow::Status::OK() : misplaced(row, runs, found);
  }

  // Every partition of this agent was named, if only to say that it has no rows.
  arrow::Status finish() const {
    for (size_t partition = 0; partition < seen_.size(); ++partition) {
      if (seen_[partition] || !location_->owns(agent_, partition)) continue;
      return fault("DataError", "the put names no rows for partition " +
                                    std::to_string(partition) + " of dataset " +
                                    quoted(location_->name) +
                                    "; send an empty batch for a partition without rows",
                   {.agent = agent_});
    }
    return arrow::Status::OK();
  }

 private:
  arrow::Status misplaced(int64_t row, const std::vector<PartitionRows>& runs,
                          uint32_t found) const {
    size_t run = 0;
    for (auto end = static_cast<int64_t>(runs[0].rows); end <= row;) {
      end += static_cast<int64_t>(runs[++run].rows);
    }
    std::string keys;
    for (const std::string& key : location_->keys) keys += (keys.empty() ? "" : ", ") + key;
    return fault("DataError", "a row for partition " + std::to_string(runs[run].partition) +
                                  " of dataset " + quoted(location_->name) +
                                  " belongs to partition " + std::to_string(found) +
                                  " by its keys " + keys);
  }

  DatasetPtr location_;
  std::string agent_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<int32_t> keys_;
  int cpu_;
  std::vector<bool> seen_;
};

}  // namespace fabric
