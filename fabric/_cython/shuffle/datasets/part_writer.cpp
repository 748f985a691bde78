// The IPC stream files of an attempt while they are written, and their way into place.
//
// `PartOutput` is an output stream that counts, checksums and appends. Many partitions share few
// open files: the one that was not written to for the longest is closed, and opened again when
// needed.
#include "datasets/part_writer.hpp"

#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type_traits.h>
#include <arrow/util/crc32.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <utility>
#include <vector>

#include "datasets/part_files.hpp"
#include "store/disk.hpp"
#include "store/payload.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr size_t ALL_OPEN_MAX = 256;  // a process has 1024 descriptors, if nobody allowed more
constexpr size_t OPEN_FILES_MAX = 32;  // of one put

}  // namespace

// The files of one put that are open at the moment, the newest in front.
class OpenOutputs {
 public:
  OpenOutputs(size_t n_max, OpenCount& of_all) : n_max_(n_max), of_all_(of_all) {}
  int touch(PartOutput& output);
  void forget(PartOutput& output) { outputs_.remove(&output); }

 private:
  friend class PartOutput;

  bool is_full() const {  // a put may always have one
    return !outputs_.empty() && (outputs_.size() >= n_max_ || of_all_.load() >= ALL_OPEN_MAX);
  }

  size_t n_max_;
  OpenCount& of_all_;
  std::list<PartOutput*> outputs_;
};

class PartOutput final : public Gathering {
 public:
  PartOutput(Disk& disk, OpenOutputs& open, FilePath path, std::string failure)
      : disk_(disk), open_(open), path_(std::move(path)), failure_(std::move(failure)) {}
  ~PartOutput() override {
    shut();
    open_.forget(*this);
  }

  int64_t n_bytes() const { return n_bytes_; }
  uint32_t crc32() const { return crc32_; }

  // What was written goes off with one system call a message.
  arrow::Status flush() {
    if (pieces_.empty()) return arrow::Status::OK();
    for (const auto& piece : pieces_) {
      crc32_ = arrow::internal::crc32(crc32_, piece->data(), static_cast<size_t>(piece->size()));
      n_bytes_ += piece->size();
    }
    int error = open_.touch(*this);
    if (error == 0) error = disk_.write(file_.fd(), pieces_);
    pieces_.clear();
    return error == 0 ? arrow::Status::OK() : storage_fault(error, failure_);
  }

  // All of it on the disk, and the file closed.
  arrow::Status settle() {
    ARROW_RETURN_NOT_OK(flush());
    int error = open_.touch(*this);
    if (error == 0) error = disk_.sync(file_.fd());
    const int closing = shut();
    open_.forget(*this);
    if (error == 0) error = closing;
    return error == 0 ? arrow::Status::OK() : storage_fault(error, failure_);
  }

 private:
  friend class OpenOutputs;

  bool is_open() const { return file_.fd() >= 0; }
  int open() {
    const int error = disk_.open_to_append(path_, 0, file_);
    if (error == 0) open_.of_all_ += 1;
    return error;
  }
  int shut() {  // a file system over a network may say only now that it is full
    const int fd = file_.release();
    if (fd >= 0) open_.of_all_ -= 1;
    return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : errno;
  }

  Disk& disk_;
  OpenOutputs& open_;
  FilePath path_;
  std::string failure_;
  OpenFile file_;
  int64_t n_bytes_ = 0;  // that are in the file
  uint32_t crc32_ = 0;
};

int OpenOutputs::touch(PartOutput& output) {
  if (output.is_open() && !outputs_.empty() && outputs_.front() == &output) return 0;
  outputs_.remove(&output);
  if (!output.is_open()) {
    while (is_full()) {
      if (const int error = outputs_.back()->shut()) return error;
      outputs_.pop_back();
    }
    if (const int error = output.open()) return error;
  }
  outputs_.push_front(&output);
  return 0;
}

arrow::Result<std::shared_ptr<PartWriter>> PartWriter::open(
    std::shared_ptr<Shared> shared, FilePath transaction, std::string stem,
    std::shared_ptr<arrow::Schema> schema, std::string shown) {
  auto writer = std::make_shared<PartWriter>(std::move(shared), std::move(transaction),
                                             std::move(stem), std::move(schema),
                                             std::move(shown));
  const int error = writer->shared_->disk.make_folder(writer->folder_);
  if (error != 0) return writer->given_up(storage_fault(error, writer->failure_));
  return writer;
}

PartWriter::PartWriter(std::shared_ptr<Shared> shared, FilePath transaction, std::string stem,
                       std::shared_ptr<arrow::Schema> schema, std::string shown)
    : shared_(std::move(shared)), transaction_(std::move(transaction)), stem_(std::move(stem)),
      schema_(std::move(schema)), shown_(std::move(shown)),
      failure_("can't write put " + shown_),
      folder_(transaction_ / (stem_ + "-" + random_hex(6))),
      open_(std::make_unique<OpenOutputs>(OPEN_FILES_MAX, shared_->n_open)) {}
PartWriter::~PartWriter() { abandon(); }

arrow::Status PartWriter::write(uint32_t partition,
                                const std::shared_ptr<arrow::RecordBatch>& batch) {
  return write_checked(partition, batch, std::nullopt);
}

arrow::Status PartWriter::write_checked(uint32_t partition,
                                        const std::shared_ptr<arrow::RecordBatch>& batch,
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

arrow::Result<Receipt> PartWriter::seal() {
  ARROW_RETURN_NOT_OK(check_open());
  const arrow::Status status = publish();
  if (!status.ok() && !renamed_) return given_up(status);
  State expected = State::OPEN;
  if (!state_.compare_exchange_strong(expected, State::SEALED)) return check_open();
  parts_.clear();
  if (!status.ok()) return status;  // it is whole and in place, but maybe not to stay
  return receipt_;
}

void PartWriter::abandon() {
  const State before = state_.load();
  if (before != State::OPEN && before != State::REFUSED) return;
  state_ = State::ABANDONED;
  parts_.clear();
  remove_tree(folder_);
}

void PartWriter::refuse() {
  State expected = State::OPEN;
  state_.compare_exchange_strong(expected, State::REFUSED);
}

bool PartWriter::is_open_in(const FilePath& transaction) const {
  return state_ == State::OPEN && transaction == transaction_;
}

arrow::Status PartWriter::check_open() {
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
arrow::Status PartWriter::given_up(const arrow::Status& status) {
  if (state_ == State::REFUSED) return check_open();
  abandon();
  if (!detail_of(status).empty()) return status;
  return fault("DataError", "put " + shown_ + " can't hold these rows: " + status.message());
}

arrow::Status PartWriter::append(uint32_t partition, Part& part, const arrow::RecordBatch& batch,
                                 std::optional<uint32_t> crc32c) {
  if (!crc32c) {
    ARROW_ASSIGN_OR_RAISE(crc32c, crc32c_of(batch, shared_->cpu));
  }
  if (part.stream == nullptr) {
    part.output = std::make_shared<PartOutput>(shared_->disk, *open_,
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

arrow::Status PartWriter::publish() {
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
arrow::Status PartWriter::put_in_place(const std::string& bytes) {
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

arrow::Status PartWriter::done(int error) const {
  return error == 0 ? arrow::Status::OK() : storage_fault(error, failure_);
}

}  // namespace fabric
