// The IPC stream file of one partition while it is written.
//
// One job: an output stream that counts, checksums and appends. Many partitions share few open
// files: the one that was not written to for the longest is closed, and opened again when needed.
#pragma once
#include <list>

#include "store/disk.hpp"
#include "store/gathering.hpp"

namespace fabric {

class PartOutput;

// How many files of all puts below one folder are open.
using OpenCount = std::atomic<size_t>;
constexpr size_t ALL_OPEN_MAX = 256;  // a process has 1024 descriptors, if nobody allowed more

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
    std::vector<iovec> vectors;
    vectors.reserve(pieces_.size());
    for (const auto& piece : pieces_) {
      const auto size = static_cast<size_t>(piece->size());
      crc32_ = arrow::internal::crc32(crc32_, piece->data(), size);
      n_bytes_ += piece->size();
      vectors.push_back({const_cast<uint8_t*>(piece->data()), size});
    }
    int error = open_.touch(*this);
    if (error == 0) error = disk_.write(file_.fd(), vectors);
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
    int fd = -1;
    const int error = disk_.open_to_append(path_, 0, fd);
    if (error == 0) open_.of_all_ += 1;
    file_ = OpenFile(fd);
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

inline int OpenOutputs::touch(PartOutput& output) {
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

}  // namespace fabric
