// Writing one attempt of one writer aside, and sealing it.
//
// One job: `PartWriter`. Files of all partitions go to a folder that no reader looks at; `seal`
// makes them durable (fsync of files, folder, manifest) and renames the manifest into place, over
// that of an earlier try of the same attempt. A failure leaves nothing behind, and says which put
// and why, but no path.
#pragma once
#include <arrow/ipc/writer.h>

#include <mutex>
#include <optional>

#include "aside.hpp"
#include "manifest.hpp"
#include "owner.hpp"
#include "part_file.hpp"
#include "store/union_codes.hpp"
#include "wire/check.hpp"

namespace fabric {

constexpr size_t OPEN_FILES_MAX = 32;  // of one put

class PartWriter final : public OwnerWriter {
 public:
  // What writers below one folder share. It outlives them.
  struct Shared {
    Disk disk;
    std::mutex publishing;
    OpenCount n_open{0};
    int cpu = 0;
  };

  // Writes below `transaction` (a folder); `stem` names writer and attempt, `shown` the put.
  static arrow::Result<std::shared_ptr<PartWriter>> open(std::shared_ptr<Shared> shared,
                                                         FilePath transaction, std::string stem,
                                                         std::shared_ptr<arrow::Schema> schema,
                                                         std::string shown) {
    auto writer = std::make_shared<PartWriter>(std::move(shared), std::move(transaction),
                                               std::move(stem), std::move(schema),
                                               std::move(shown));
    const int error = writer->shared_->disk.make_folder(writer->folder_);
    if (error != 0) return writer->given_up(storage_fault(error, writer->failure_));
    return writer;
  }

  PartWriter(std::shared_ptr<Shared> shared, FilePath transaction, std::string stem,
             std::shared_ptr<arrow::Schema> schema, std::string shown)
      : shared_(std::move(shared)), transaction_(std::move(transaction)), stem_(std::move(stem)),
        schema_(std::move(schema)), shown_(std::move(shown)),
        failure_("can't write put " + shown_),
        folder_(transaction_ / (stem_ + "-" + random_hex(6))) {}
  ~PartWriter() override { abandon(); }

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  arrow::Status write(uint32_t partition,
                      const std::shared_ptr<arrow::RecordBatch>& batch) override {
    return write_checked(partition, batch, std::nullopt);
  }

  // `crc32c` is that of the batch when the caller knows it already.
  arrow::Status write_checked(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& batch,
                              std::optional<uint32_t> crc32c) {
    ARROW_RETURN_NOT_OK(check_open());
    if (!batch->schema()->Equals(*schema_, false)) {
      return fault("DataError", "a batch of put " + shown_ + " has another schema than the put");
    }
    Part& part = parts_[partition];
    if (batch->num_rows() == 0) return arrow::Status::OK();
    const arrow::Status status = append(partition, part, *batch, crc32c);
    return status.ok() ? status : given_up(status);
  }

  // Make the attempt durable and visible to readers of its transaction.
  arrow::Result<Receipt> seal() override {
    ARROW_RETURN_NOT_OK(check_open());
    const arrow::Status status = publish();
    if (!status.ok() && !renamed_) return given_up(status);
    State expected = State::OPEN;
    if (!state_.compare_exchange_strong(expected, State::SEALED)) return check_open();
    parts_.clear();
    if (!status.ok()) return status;  // it is whole and in place, but maybe not to stay
    return receipt_;
  }

  void abandon() override {
    const State before = state_.load();
    if (before != State::OPEN && before != State::REFUSED) return;
    state_ = State::ABANDONED;
    parts_.clear();
    remove_tree(folder_);
  }

  // Its transaction is gone: from another thread, tell the writing one to give up.
  void refuse() {
    State expected = State::OPEN;
    state_.compare_exchange_strong(expected, State::REFUSED);
  }

  // Whether this is still being written, below that folder.
  bool is_open_in(const FilePath& transaction) const {
    return state_ == State::OPEN && transaction == transaction_;
  }

 private:
  enum class State { OPEN, REFUSED, SEALED, ABANDONED };

  struct Part {  // no output: no rows so far
    int64_t rows = 0;
    std::shared_ptr<PartOutput> output;
    std::shared_ptr<arrow::ipc::RecordBatchWriter> stream;
  };

  arrow::Status check_open() {
    const State state = state_;
    if (state == State::OPEN) return arrow::Status::OK();
    if (state == State::REFUSED) {
      abandon();
      return fault("NotFoundError",
                   "put " + shown_ + " comes too late: the transaction was aborted");
    }
    return fault("InternalError", "put " + shown_ + " has ended: it is " +
                                      (state == State::SEALED ? "sealed" : "abandoned"));
  }

  // Nothing stays; what Arrow says is told in our words.
  arrow::Status given_up(const arrow::Status& status) {
    if (state_ == State::REFUSED) return check_open();
    abandon();
    if (!detail_of(status).empty()) return status;
    return fault("DataError", "put " + shown_ + " can't hold these rows: " + status.message());
  }

  arrow::Status append(uint32_t partition, Part& part, const arrow::RecordBatch& batch,
                       std::optional<uint32_t> crc32c) {
    if (!crc32c) {
      ARROW_ASSIGN_OR_RAISE(crc32c, crc32c_of(batch, shared_->cpu));
    }
    if (part.stream == nullptr) {
      part.output = std::make_shared<PartOutput>(shared_->disk, open_,
                                                 folder_ / part_name(partition), failure_);
      auto options = arrow::ipc::IpcWriteOptions::Defaults();
      options.use_threads = false;
      ARROW_ASSIGN_OR_RAISE(part.stream,
                            arrow::ipc::MakeStreamWriter(part.output, schema_, options));
    }
    ARROW_RETURN_NOT_OK(write_rows(*part.stream, batch));
    ARROW_RETURN_NOT_OK(part.output->flush());
    part.rows += batch.num_rows();
    receipt_.rows += static_cast<uint64_t>(batch.num_rows());
    receipt_.crc32c_sum += *crc32c;
    return arrow::Status::OK();
  }

  arrow::Status publish() {
    Manifest manifest{folder_.filename(), schema_, static_cast<int64_t>(receipt_.rows),
                      receipt_.crc32c_sum, {}};
    for (auto& [partition, part] : parts_) {
      PartFile& file = manifest.files[partition];
      if (part.stream == nullptr) continue;
      ARROW_RETURN_NOT_OK(part.stream->Close());
      ARROW_RETURN_NOT_OK(part.output->settle());
      file = {part.rows, part.output->n_bytes(), part.output->crc32()};
    }
    ARROW_RETURN_NOT_OK(done(shared_->disk.sync_folder(folder_)));
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, encode_manifest(manifest));
    return put_in_place(bytes);
  }

  // The files of the try that this one replaces go.
  arrow::Status put_in_place(const std::string& bytes) {
    const FilePath place = transaction_ / (stem_ + ".manifest");
    const FilePath aside = transaction_ / (folder_.filename().string() + ".aside");
    std::string before;
    {
      const std::lock_guard lock(shared_->publishing);  // two tries of one attempt may seal at once
      int error = read_whole(place, before);
      if (error == 0 || error == ENOENT) error = replace_file(shared_->disk, aside, place, bytes);
      ARROW_RETURN_NOT_OK(done(error));
    }
    renamed_ = true;
    const auto replaced = decode_manifest(before);  // a damaged one names none: sweeping finds it
    if (replaced.ok()) remove_tree(transaction_ / replaced->folder);
    const FilePath dataset = transaction_.parent_path();
    for (const FilePath& folder : {transaction_, dataset, dataset.parent_path()}) {
      ARROW_RETURN_NOT_OK(done(shared_->disk.sync_folder(folder)));
    }
    return arrow::Status::OK();
  }

  arrow::Status done(int error) const {
    return error == 0 ? arrow::Status::OK() : storage_fault(error, failure_);
  }

  std::shared_ptr<Shared> shared_;
  FilePath transaction_;
  std::string stem_;
  std::shared_ptr<arrow::Schema> schema_;
  std::string shown_, failure_;
  FilePath folder_;
  std::atomic<State> state_{State::OPEN};
  OpenOutputs open_{OPEN_FILES_MAX, shared_->n_open};
  std::map<uint32_t, Part> parts_;
  Receipt receipt_;
  bool renamed_ = false;
};

}  // namespace fabric
