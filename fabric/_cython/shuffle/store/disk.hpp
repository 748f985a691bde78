// What files of rows ask of the system.
//
// One job: a few calls that answer with an errno (0: fine), and folders that are durable or gone.
// Tests make a step fail through `fail`, because no test can fill a real disk.
#pragma once
#include <arrow/util/crc32.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "wire/fault.hpp"

namespace fabric {

using FilePath = std::filesystem::path;

enum class DiskStep : size_t { MKDIR, WRITE, SYNC, RENAME };

// A StorageError with the system's reason, without its path.
inline arrow::Status storage_fault(int error, const std::string& what) {
  return fault("StorageError", what + ": " + std::generic_category().message(error));
}

class Disk {
 public:
  // From now on `step` fails with this errno; 0 ends that.
  void fail(DiskStep step, int error) { failing_[static_cast<size_t>(step)] = error; }

  int make_folder(const FilePath& path) {  // with what is above it
    if (const int error = failing(DiskStep::MKDIR)) return error;
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) return 0;
    if (path.has_parent_path() && path.parent_path() != path) {
      if (const int error = make_folder(path.parent_path())) return error;
    }
    if (::mkdir(path.c_str(), 0700) == 0) return 0;
    return errno == EEXIST && std::filesystem::is_directory(path, code) ? 0 : errno;
  }

  int open_to_append(const FilePath& path, int flags, int& fd) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0600);
    return fd < 0 ? errno : 0;
  }

  int write(int fd, std::vector<iovec>& pieces) {
    if (const int error = failing(DiskStep::WRITE)) return error;
    for (size_t first = 0; first < pieces.size();) {
      const size_t n = std::min<size_t>(pieces.size() - first, 512);
      ssize_t done = ::writev(fd, pieces.data() + first, static_cast<int>(n));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return errno;
      while (first < pieces.size() && static_cast<size_t>(done) >= pieces[first].iov_len) {
        done -= static_cast<ssize_t>(pieces[first++].iov_len);
      }
      if (done > 0) {
        pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + done;
        pieces[first].iov_len -= static_cast<size_t>(done);
      }
    }
    return 0;
  }

  int sync(int fd) {
    if (const int error = failing(DiskStep::SYNC)) return error;
    return ::fsync(fd) == 0 ? 0 : errno;
  }

  int sync_folder(const FilePath& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int error = sync(fd);
    ::close(fd);
    return error;
  }

  int rename(const FilePath& from, const FilePath& to) {
    if (const int error = failing(DiskStep::RENAME)) return error;
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }

 private:
  int failing(DiskStep step) const { return failing_[static_cast<size_t>(step)]; }

  std::array<std::atomic<int>, 4> failing_{};
};

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

inline int open_to_read(const FilePath& path, OpenFile& out) {
  out = OpenFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return out.fd() < 0 ? errno : 0;
}

// All bytes from the file's beginning, in pieces, to `take(data, n)`.
template <class Take>
int read_through(int fd, Take take) {
  std::vector<char> piece(1 << 20);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(fd, piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    take(piece.data(), static_cast<size_t>(n));
    at += n;
  }
}

inline int read_whole(const FilePath& path, std::string& out) {
  OpenFile file;
  if (const int error = open_to_read(path, file)) return error;
  return read_through(file.fd(), [&out](const char* data, size_t n) { out.append(data, n); });
}

// What is removed may be gone already, wholly or in part.
inline void remove_tree(const FilePath& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

inline std::string random_hex(size_t n_bytes) {
  std::string bytes(n_bytes, 0), text;
  if (::getrandom(bytes.data(), n_bytes, 0) != static_cast<ssize_t>(n_bytes)) {
    throw std::system_error(errno, std::generic_category(), "no random bytes");
  }
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<uint8_t>(byte) >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace fabric
