// Which partition each row of a batch goes to, what is gathered for each partition's owners, and
// what is wrong with locations, rows and owners.
//
// Batches go through Arrow's C interface to the kernels.
#include "datasets/spread.hpp"

#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <utility>

#include "flight/strangers.hpp"
#include "flight/directory.hpp"
#include "flight/text.hpp"
#include "partition.hpp"
#include "partition_batch.hpp"
#include "store/coalesce.hpp"
#include "store/size.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

// By the hash of the dataset's keys, or, without keys, evenly in turn.
class Splitter {
 public:
  static arrow::Result<std::unique_ptr<Splitter>> make(const std::shared_ptr<arrow::Schema>& schema,
                                                       const std::vector<std::string>& keys,
                                                       uint32_t n_partitions, Allocator& allocator,
                                                       int cpu) {
    if (n_partitions < 1 || n_partitions > PARTITIONS_MAX) {
      return fault("ConfigError", "a dataset has 1 to " + std::to_string(PARTITIONS_MAX) +
                                      " partitions, not " + std::to_string(n_partitions));
    }
    auto splitter = std::make_unique<Splitter>(schema, n_partitions, allocator, cpu);
    if (keys.empty()) return splitter;
    ARROW_ASSIGN_OR_RAISE(const auto indices, key_indices(*schema, keys));
    Exported exported;
    ARROW_RETURN_NOT_OK(arrow::ExportSchema(*schema, &exported.schema));
    splitter->by_hash_ = std::make_unique<BatchPartitioner>(
        exported.schema, indices, static_cast<int32_t>(n_partitions), 0);
    return splitter;
  }

  Splitter(std::shared_ptr<arrow::Schema> schema, uint32_t n_partitions, Allocator& allocator,
           int cpu)
      : schema_(std::move(schema)), n_partitions_(n_partitions), allocator_(allocator), cpu_(cpu) {}

  // Call `take(partition, rows)` for each run; rows of one partition keep their order.
  template <class Take>
  arrow::Status split(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    return by_hash_ == nullptr ? in_turn(batch, take) : hashed(batch, take);
  }

 private:
  // Each batch is cut into equal runs; which partition begins goes on from batch to batch.
  template <class Take>
  arrow::Status in_turn(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    const int64_t n_rows = batch->num_rows();
    const int64_t n_runs = std::min<int64_t>(n_partitions_, n_rows);
    for (int64_t run = 0; run < n_runs; ++run) {
      const int64_t begin = n_rows * run / n_runs, end = n_rows * (run + 1) / n_runs;
      const auto partition = static_cast<uint32_t>((next_ + run) % n_partitions_);
      ARROW_RETURN_NOT_OK(take(partition, Rows{batch, begin, end - begin}));
    }
    next_ = (next_ + n_runs) % n_partitions_;
    return arrow::Status::OK();
  }

  template <class Take>
  arrow::Status hashed(const std::shared_ptr<arrow::RecordBatch>& batch, Take take) {
    std::vector<int64_t> offsets(n_partitions_ + 1);
    std::shared_ptr<arrow::RecordBatch> moved = batch;
    {
      Exported exported;
      ArrowArray out{};
      ARROW_RETURN_NOT_OK(exported.fill(*batch));
      if (by_hash_->run(exported.array, cpu_, allocator_, offsets.data(), out)) {
        ARROW_ASSIGN_OR_RAISE(moved, arrow::ImportRecordBatch(&out, schema_));
      }
    }
    for (uint32_t partition = 0; partition < n_partitions_; ++partition) {
      const int64_t begin = offsets[partition], n = offsets[partition + 1] - begin;
      if (n > 0) ARROW_RETURN_NOT_OK(take(partition, Rows{moved, begin, n}));
    }
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::Schema> schema_;
  uint32_t n_partitions_;
  Allocator& allocator_;
  int cpu_;
  std::unique_ptr<BatchPartitioner> by_hash_;
  int64_t next_ = 0;
};

class Spreading final : public Spread {
 public:
  Spreading(DatasetPtr location, std::shared_ptr<arrow::Schema> schema, Open open,
            std::unique_ptr<Splitter> splitter, int cpu, int64_t held_bytes_max)
      : location_(std::move(location)), schema_(std::move(schema)), open_(std::move(open)),
        splitter_(std::move(splitter)), cpu_(cpu), held_bytes_max_(held_bytes_max),
        parts_(location_->n_partitions) {}
  ~Spreading() override { abandon(); }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  uint64_t rows() const override { return rows_; }

  arrow::Status write(const std::shared_ptr<arrow::RecordBatch>& given) override {
    if (!given->schema()->Equals(*schema_, false)) {
      return fault("DataError", "the rows have columns " + columns_text(*given->schema()) +
                                    ", dataset " + quoted(location_->name) + " has " +
                                    columns_text(*schema_));
    }
    const auto batch = arrow::RecordBatch::Make(schema_, given->num_rows(), given->column_data());
    rows_ += static_cast<uint64_t>(batch->num_rows());
    ARROW_RETURN_NOT_OK(splitter_->split(
        batch, [this](uint32_t partition, Rows rows) { return hold(partition, std::move(rows)); }));
    pinned_bytes_ += arrow::util::TotalBufferSize(*batch);
    return pinned_bytes_ > held_bytes_max_ ? unpin() : arrow::Status::OK();
  }

  arrow::Result<Receipt> seal() override {
    for (uint32_t partition = 0; partition < parts_.size(); ++partition) {
      ARROW_RETURN_NOT_OK(flush(partition));
      if (parts_[partition].is_written) continue;
      ARROW_ASSIGN_OR_RAISE(const auto none, empty_rows(schema_));
      ARROW_RETURN_NOT_OK(send(partition, none));
    }
    Receipt all;
    for (const auto& [owner, writer] : writers_) {
      const arrow::Result<Receipt> one = writer->seal();
      if (!one.ok()) return at_owner(one.status(), owner);
      all.add(*one);
    }
    return counted(all);
  }

  void abandon() override {
    for (Part& part : parts_) part = {};
    for (const auto& [owner, writer] : writers_) writer->abandon();
  }

 private:
  struct Part {
    std::vector<Rows> held;
    int64_t bytes = 0;
    bool is_written = false;
  };

  arrow::Status hold(uint32_t partition, Rows rows) {
    Part& part = parts_[partition];
    const int64_t n_bytes = size_of(*rows.batch, rows.begin, rows.n).total();
    part.held.push_back(std::move(rows));
    part.bytes += n_bytes;
    held_bytes_ += n_bytes;
    return part.bytes >= SIZES.message ? flush(partition) : arrow::Status::OK();
  }

  arrow::Status flush(uint32_t partition) {
    std::vector<std::shared_ptr<arrow::RecordBatch>> messages;
    ARROW_RETURN_NOT_OK(coalesce_all(take(parts_[partition]), SIZES, messages));
    for (const auto& message : messages) ARROW_RETURN_NOT_OK(send(partition, message));
    return arrow::Status::OK();
  }

  std::vector<Rows> take(Part& part) {
    held_bytes_ -= std::exchange(part.bytes, 0);
    return std::exchange(part.held, {});
  }

  arrow::Status send(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& batch) {
    parts_[partition].is_written = true;
    const bool counts = location_->replicas > 1 && batch->num_rows() > 0;
    Receipt one;
    if (counts) {
      one.rows = static_cast<uint64_t>(batch->num_rows());
      ARROW_ASSIGN_OR_RAISE(one.crc32c_sum, crc32c_of(*batch, cpu_));
      once_.add(one);
    }
    for (const std::string& owner : location_->owners_of(partition)) {
      if (owner.empty()) continue;
      ARROW_RETURN_NOT_OK(send_to(owner, partition, batch));
      if (counts) sent_.add(one);
    }
    return arrow::Status::OK();
  }

  arrow::Status send_to(const std::string& owner, uint32_t partition,
                        const std::shared_ptr<arrow::RecordBatch>& batch) {
    std::shared_ptr<OwnerWriter>& writer = writers_[owner];
    if (writer == nullptr) {
      auto opened = open_(owner);
      if (!opened.ok()) {
        writers_.erase(owner);
        return at_owner(opened.status(), owner);
      }
      writer = *opened;
    }
    return at_owner(writer->write(partition, batch), owner);
  }

  // What the owners sealed is what all of them were sent.
  arrow::Result<Receipt> counted(const Receipt& sealed) const {
    if (location_->replicas == 1) return sealed;
    if (sealed.rows == sent_.rows && sealed.crc32c_sum == sent_.crc32c_sum) return once_;
    return fault("PartitionLostError",
                 "the owners of dataset " + quoted(location_->name) + " sealed " +
                     std::to_string(sealed.rows) + " rows of " + std::to_string(sent_.rows) +
                     ", all replicas together, or their checksums differ; write them again");
  }

  // Slices keep their whole batches in memory: send what is most, copy the rest.
  arrow::Status unpin() {
    std::vector<uint32_t> order;
    for (uint32_t partition = 0; partition < parts_.size(); ++partition) {
      if (!parts_[partition].held.empty()) order.push_back(partition);
    }
    std::sort(order.begin(), order.end(),
              [this](uint32_t a, uint32_t b) { return parts_[a].bytes > parts_[b].bytes; });
    for (const uint32_t partition : order) {
      if (held_bytes_ > held_bytes_max_ / 2) {
        ARROW_RETURN_NOT_OK(flush(partition));
      } else {
        ARROW_RETURN_NOT_OK(copy(parts_[partition]));
      }
    }
    pinned_bytes_ = held_bytes_;
    return arrow::Status::OK();
  }

  // The same rows in buffers of their own.
  arrow::Status copy(Part& part) {
    std::vector<std::shared_ptr<arrow::RecordBatch>> messages;
    const bool single = part.held.size() == 1;  // those are not copied yet
    ARROW_RETURN_NOT_OK(coalesce_all(take(part), COPIES, messages));
    for (auto& message : messages) {
      const int64_t n_rows = message->num_rows();
      if (single) {
        arrow::ArrayVector columns = message->columns();
        for (auto& column : columns) {
          ARROW_ASSIGN_OR_RAISE(column, arrow::Concatenate({column}));
        }
        message = arrow::RecordBatch::Make(schema_, n_rows, std::move(columns));
        ARROW_ASSIGN_OR_RAISE(message, compacted(std::move(message), true));
      }
      part.bytes += size_of(*message, 0, n_rows).total();
      part.held.push_back({std::move(message), 0, n_rows});
    }
    held_bytes_ += part.bytes;
    return arrow::Status::OK();
  }

  static constexpr MessageSizes SIZES{1 << 20, 1 << 20, MessageSizes{}.most, true};
  static constexpr MessageSizes COPIES{INT64_MAX, INT64_MAX, SIZES.most, true};

  DatasetPtr location_;
  std::shared_ptr<arrow::Schema> schema_;
  Open open_;
  std::unique_ptr<Splitter> splitter_;
  const int cpu_;
  const int64_t held_bytes_max_;
  std::vector<Part> parts_;
  int64_t held_bytes_ = 0, pinned_bytes_ = 0;
  std::map<std::string, std::shared_ptr<OwnerWriter>> writers_;
  uint64_t rows_ = 0;
  Receipt once_, sent_;  // with replicas: the rows, and how often they were sent
};

}  // namespace

arrow::Result<DatasetPtr> decode_location(const std::string& bytes) {
  std::vector<DatasetPtr> all;
  if (decode_dataset(bytes, all) && !all.empty()) return all[0];
  return fault("InternalError", "the location of a dataset is damaged");
}

arrow::Status check_owners(const DatasetLocation& location) {
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

arrow::Status check_addresses(const DatasetLocation& location,
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

arrow::Result<std::unique_ptr<Spread>> Spread::begin(DatasetPtr location, Open open,
                                                     Allocator& allocator, int cpu,
                                                     int64_t held_bytes_max) {
  ARROW_RETURN_NOT_OK(check_owners(*location));
  ARROW_ASSIGN_OR_RAISE(auto schema, read_schema(location->schema));
  ARROW_ASSIGN_OR_RAISE(auto splitter, Splitter::make(schema, location->keys,
                                                      location->n_partitions, allocator, cpu));
  return std::make_unique<Spreading>(std::move(location), std::move(schema), std::move(open),
                                     std::move(splitter), cpu, held_bytes_max);
}

arrow::Result<std::vector<int32_t>> key_indices(const arrow::Schema& schema,
                                                const std::vector<std::string>& keys) {
  std::vector<int32_t> indices;
  for (const std::string& key : keys) {
    const std::vector<int> found = schema.GetAllFieldIndices(key);
    if (found.size() != 1) {
      return fault("ConfigError", "key column " + quoted(key) +
                                      (found.empty() ? " is not there" : " is there twice"));
    }
    indices.push_back(found[0]);
  }
  return indices;
}

arrow::Status at_owner(const arrow::Status& status, const std::string& owner) {
  auto said = said_by(status);
  if (!said) return status;
  said->at.agent = owner;
  return said->status();
}

arrow::Status of_put(const arrow::Status& status, const std::string& dataset,
                     const std::string& agent) {
  auto said = said_by(status);
  if (!said) return status;
  if (said->at.agent.empty()) said->at.agent = agent;
  const bool named = said->message.find(quoted(dataset)) != std::string::npos ||
                     said->message.find("put " + dataset + "/") != std::string::npos;
  if (!named) said->message = "put to dataset " + quoted(dataset) + ": " + said->message;
  return said->status();
}

}  // namespace fabric
