// The calls that files of rows ask of the system.
#include "store/disk.hpp"

#include <arrow/status.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "wire/fault.hpp"

namespace fabric {

arrow::Status storage_fault(int error, const std::string& what) {
  return fault("StorageError", what + ": " + std::generic_category().message(error));
}

int Disk::make_folder(const FilePath& path) {
  if (const int error = failing(DiskStep::MKDIR)) return error;
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return 0;
  if (path.has_parent_path() && path.parent_path() != path) {
    if (const int error = make_folder(path.parent_path())) return error;
  }
  if (::mkdir(path.c_str(), 0700) == 0) return 0;
  return errno == EEXIST && std::filesystem::is_directory(path, code) ? 0 : errno;
}

int Disk::open_to_append(const FilePath& path, int flags, OpenFile& out) {
  out = OpenFile(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0600));
  return out.fd() < 0 ? errno : 0;
}

int Disk::write(int fd, const Buffers& pieces) {
  std::vector<iovec> vectors;
  vectors.reserve(pieces.size());
  for (const auto& piece : pieces) {
    vectors.push_back({const_cast<uint8_t*>(piece->data()), static_cast<size_t>(piece->size())});
  }
  return write(fd, vectors);
}

int Disk::write(int fd, std::string_view bytes) {
  std::vector<iovec> vectors{{const_cast<char*>(bytes.data()), bytes.size()}};
  return write(fd, vectors);
}

int Disk::write(int fd, std::vector<iovec>& pieces) {
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

int Disk::sync(int fd) {
  if (const int error = failing(DiskStep::SYNC)) return error;
  return ::fsync(fd) == 0 ? 0 : errno;
}

int Disk::sync_folder(const FilePath& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = sync(fd);
  ::close(fd);
  return error;
}

int Disk::rename(const FilePath& from, const FilePath& to) {
  if (const int error = failing(DiskStep::RENAME)) return error;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int open_to_read(const FilePath& path, OpenFile& out) {
  out = OpenFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return out.fd() < 0 ? errno : 0;
}

int read_through(int fd, const std::function<void(const char*, size_t)>& take) {
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

int read_whole(const FilePath& path, std::string& out) {
  OpenFile file;
  if (const int error = open_to_read(path, file)) return error;
  return read_through(file.fd(), [&out](const char* data, size_t n) { out.append(data, n); });
}

void remove_tree(const FilePath& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string random_hex(size_t n_bytes) {
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
