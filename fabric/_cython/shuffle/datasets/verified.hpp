// Which files are known to be those that were written.
//
// One job: size and CRC-32 of a file are compared with its manifest once, as long as inode, size
// and time of change stay. Thread-safe.
#pragma once
#include <mutex>
#include <unordered_set>

#include "manifest.hpp"
#include "read.hpp"

namespace fabric {

class VerifiedFiles {
 public:
  explicit VerifiedFiles(std::string agent) : agent_(std::move(agent)) {}

  // `whole.file` is open afterwards.
  arrow::Status verify(WholeFile& whole, const PartFile& expected) {
    struct stat status{};
    int error = open_to_read(whole.path, whole.file);
    if (error == 0 && ::fstat(whole.file.fd(), &status) != 0) error = errno;
    if (error != 0) return unreadable(error, whole.shown);
    const std::string key = whole.path.string() + "/" + std::to_string(status.st_ino) + "/" +
                            std::to_string(status.st_size) + "/" +
                            std::to_string(status.st_mtim.tv_sec) + "/" +
                            std::to_string(status.st_mtim.tv_nsec);
    {
      const std::lock_guard lock(mutex_);
      if (known_.contains(key)) return arrow::Status::OK();
    }
    ARROW_RETURN_NOT_OK(compare(whole, expected));
    const std::lock_guard lock(mutex_);
    if (known_.size() >= KNOWN_MAX) known_.clear();
    known_.insert(key);
    return arrow::Status::OK();
  }

 private:
  static constexpr size_t KNOWN_MAX = 65'536;

  arrow::Status compare(const WholeFile& whole, const PartFile& expected) const {
    int64_t n_bytes = 0;
    uint32_t crc32 = 0;
    const int error = read_through(whole.file.fd(), [&](const char* data, size_t n) {
      n_bytes += static_cast<int64_t>(n);
      crc32 = arrow::internal::crc32(crc32, data, n);
    });
    if (error != 0) return unreadable(error, whole.shown);
    if (n_bytes == expected.n_bytes && crc32 == expected.crc32) return arrow::Status::OK();
    return fault("DataError", "a file of " + whole.shown + " is " +
                                  (n_bytes < expected.n_bytes ? "cut short" : "damaged") +
                                  ": it has " + std::to_string(n_bytes) + " bytes of " +
                                  std::to_string(expected.n_bytes) +
                                  ", or its checksum differs; write the dataset again",
                 {.agent = agent_});
  }

  arrow::Status unreadable(int error, const std::string& shown) const {
    if (error != ENOENT && error != ENOTDIR) return storage_fault(error, "can't read " + shown);
    return fault("PartitionLostError", "a file of " + shown + " is gone", {.agent = agent_});
  }

  std::string agent_;
  std::mutex mutex_;
  std::unordered_set<std::string> known_;
};

}  // namespace fabric
