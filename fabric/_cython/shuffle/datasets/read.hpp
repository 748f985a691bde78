// Reading one partition of a dataset from its files.
//
// One job: the stream over files that are known to be whole. For agents it looks like an edge (edge
// 0, producer 0): every message has a header, an END with the total of rows is the last.
#pragma once
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>

#include "store/disk.hpp"
#include "store/message.hpp"
#include "wire/check.hpp"
#include "wire/empty.hpp"

namespace fabric {

// A verified file; it is opened early when it can, so that what was begun is read to its end.
struct WholeFile {
  FilePath path;
  std::string shown;
  OpenFile file;
};

class PartStream final : public MessageStream {
 public:
  struct Options {
    bool headers = false;  // for agents
    int cpu = 0;
    std::string agent;  // for messages of errors
  };

  PartStream(DatasetTicket ticket, std::shared_ptr<arrow::Schema> schema,
             std::vector<WholeFile> files, Options options)
      : ticket_(std::move(ticket)), schema_(std::move(schema)), files_(std::move(files)),
        options_(std::move(options)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Result<bool> next(Message& out) override {
    ARROW_ASSIGN_OR_RAISE(auto batch, next_batch());
    out = {{}, std::move(batch)};
    if (out.batch == nullptr && (ended_ || !options_.headers)) return false;
    if (options_.headers) ARROW_RETURN_NOT_OK(add_header(out));
    return true;
  }

 private:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next_batch() {
    std::shared_ptr<arrow::RecordBatch> batch;
    while (true) {
      if (reader_ == nullptr) {
        if (index_ == files_.size()) return nullptr;
        ARROW_RETURN_NOT_OK(open(files_[index_++]));
      }
      const arrow::Status status = reader_->ReadNext(&batch);
      if (!status.ok()) return failed(status);
      if (batch == nullptr) {
        reader_.reset();
      } else if (batch->num_rows() > 0) {
        return batch;
      }
    }
  }

  arrow::Status open(WholeFile& whole) {
    shown_ = whole.shown;
    if (whole.file.fd() < 0) {
      const int error = open_to_read(whole.path, whole.file);
      if (error == ENOENT) {
        return fault("PartitionLostError", "a file of " + shown_ + " is gone",
                     {.agent = options_.agent});
      }
      if (error != 0) return storage_fault(error, "can't read " + shown_);
    }
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(whole.file.release()));
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    auto reader = arrow::ipc::RecordBatchStreamReader::Open(std::move(file), options);
    if (!reader.ok()) return failed(reader.status());
    reader_ = *reader;
    return arrow::Status::OK();
  }

  arrow::Status failed(const arrow::Status& status) const {
    return fault("StorageError", "can't read " + shown_ + ": " + status.message());
  }

  arrow::Status add_header(Message& out) {
    EdgeHeader header;
    header.job = ticket_.name;
    header.sequence = sequence_++;
    if (out.batch == nullptr) {
      ended_ = true;
      header.event = Event::END;
      header.total_rows = rows_;
      if (schema_ != nullptr) {  // nobody knows the columns of a dataset without parts here
        ARROW_ASSIGN_OR_RAISE(out.batch, empty_rows(schema_));
      }
    } else {
      const auto n_rows = static_cast<uint64_t>(out.batch->num_rows());
      rows_ += n_rows;
      header.partitions = {{ticket_.partition, n_rows}};
      ARROW_ASSIGN_OR_RAISE(header.crc32c, crc32c_of(*out.batch, options_.cpu));
    }
    out.header = encode_header(header);
    return arrow::Status::OK();
  }

  DatasetTicket ticket_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<WholeFile> files_;
  Options options_;
  size_t index_ = 0;
  std::shared_ptr<arrow::RecordBatchReader> reader_;
  std::string shown_;
  uint64_t sequence_ = 0, rows_ = 0;
  bool ended_ = false;
};

}  // namespace fabric
