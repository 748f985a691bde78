// What files of rows ask of the system.
//
// One job: a few calls that answer with an errno (0: fine), and folders that are durable or gone.
// Tests make a step fail through `fail`, because no test can fill a real disk.
#pragma once
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fabric {

using FilePath = std::filesystem::path;

enum class DiskStep : size_t { MKDIR, WRITE, SYNC, RENAME };

// A StorageError with the system's reason, without its path.
arrow::Status storage_fault(int error, const std::string& what);

// A file descriptor that is closed with its owner.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int fd) : fd_(fd) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

using Buffers = std::vector<std::shared_ptr<arrow::Buffer>>;

class Disk {
 public:
  // From now on `step` fails with this errno; 0 ends that.
  void fail(DiskStep step, int error) { failing_[static_cast<size_t>(step)] = error; }

  int make_folder(const FilePath& path);  // with what is above it
  int open_to_append(const FilePath& path, int flags, OpenFile& out);
  int write(int fd, const Buffers& pieces);
  int write(int fd, std::string_view bytes);
  int sync(int fd);
  int sync_folder(const FilePath& path);
  int rename(const FilePath& from, const FilePath& to);

 private:
  int write(int fd, std::vector<iovec>& pieces);
  int failing(DiskStep step) const { return failing_[static_cast<size_t>(step)]; }

  std::array<std::atomic<int>, 4> failing_{};
};

int open_to_read(const FilePath& path, OpenFile& out);

// All bytes from the file's beginning, in pieces, to `take(data, n)`.
int read_through(int fd, const std::function<void(const char*, size_t)>& take);

int read_whole(const FilePath& path, std::string& out);

// What is removed may be gone already, wholly or in part.
void remove_tree(const FilePath& path);

std::string random_hex(size_t n_bytes);

// An output stream that keeps what is written: buffers that are there already stay where they are.
class Gathering : public arrow::io::OutputStream {
 public:
  arrow::Status Write(const void* data, int64_t n) override {
    return Write(arrow::Buffer::FromString(
        std::string(static_cast<const char*>(data), static_cast<size_t>(n))));
  }
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override {
    if (data->size() > 0) pieces_.push_back(data);
    position_ += data->size();
    return arrow::Status::OK();
  }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }

 protected:
  Buffers pieces_;
  int64_t position_ = 0;
};

}  // namespace fabric
