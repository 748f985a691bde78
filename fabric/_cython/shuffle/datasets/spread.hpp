// Spreading rows of one writer over the owners of a dataset (design 4.10).
//
// One job: split batches by the dataset's keys, gather them to messages of about 1 MiB per
// partition, and send each to all owners of the partition. Memory is bounded by `held_bytes_max`,
// whatever the number of partitions. One thread uses it; it never needs the GIL.
#pragma once
#include <arrow/util/byte_size.h>

#include "datasets/location.hpp"
#include "datasets/naming.hpp"
#include "datasets/owner.hpp"
#include "datasets/split.hpp"
#include "datasets/strangers.hpp"
#include "wire/empty.hpp"

namespace fabric {

constexpr int64_t HELD_BYTES_MAX = 32 << 20;

// One attempt of one writer; end it with `seal` or `abandon`. Every partition is written, also
// those without a row, so that a reader can tell "none" from "lost".
class Spread {
 public:
  using Open = std::function<arrow::Result<std::shared_ptr<OwnerWriter>>(const std::string& owner)>;

  static arrow::Result<std::unique_ptr<Spread>> begin(DatasetPtr location, Open open,
                                                      Allocator& allocator, int cpu,
                                                      int64_t held_bytes_max = HELD_BYTES_MAX) {
    ARROW_RETURN_NOT_OK(check_owners(*location));
    ARROW_ASSIGN_OR_RAISE(auto schema, schema_of_location(*location));
    ARROW_ASSIGN_OR_RAISE(auto splitter, Splitter::make(schema, location->keys,
                                                        location->n_partitions, allocator, cpu));
    return std::make_unique<Spread>(std::move(location), std::move(schema), std::move(open),
                                    std::move(splitter), cpu, held_bytes_max);
  }

  Spread(DatasetPtr location, std::shared_ptr<arrow::Schema> schema, Open open,
         std::unique_ptr<Splitter> splitter, int cpu, int64_t held_bytes_max)
      : location_(std::move(location)), schema_(std::move(schema)), open_(std::move(open)),
        splitter_(std::move(splitter)), cpu_(cpu), held_bytes_max_(held_bytes_max),
        parts_(location_->n_partitions) {}
  ~Spread() { abandon(); }

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  uint64_t rows() const { return rows_; }

  // Send the rows of `batch` on their way; it must have the dataset's schema.
  arrow::Status write(const std::shared_ptr<arrow::RecordBatch>& given) {
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

  // Wait until all rows lie durably with all their owners; each row counts once.
  arrow::Result<Receipt> seal() {
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
      all.rows += one->rows;
      all.crc32c_sum += one->crc32c_sum;
    }
    return counted(all);
  }

  // Give up; nothing stays with any owner. Does nothing after `seal`.
  void abandon() {
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
      add(once_, one);
    }
    for (const std::string& owner : location_->owners_of(partition)) {
      if (owner.empty()) continue;
      ARROW_RETURN_NOT_OK(send_to(owner, partition, batch));
      if (counts) add(sent_, one);
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

  static void add(Receipt& sum, const Receipt& one) {
    sum.rows += one.rows;
    sum.crc32c_sum += one.crc32c_sum;
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

}  // namespace fabric
