// Folders with room, the life of spill files, and what is read from them.
#include "store/spill.hpp"

#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "store/payload.hpp"
#include "wire/crc32c.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr std::string_view SPILL_MAGIC = "FABSPILL";

int64_t free_bytes_of(const FilePath& folder) {
  struct statvfs found {};
  if (::statvfs(folder.c_str(), &found) != 0) return -1;
  return static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
}

std::string head_of_file() {
  std::string bytes(SPILL_MAGIC);
  bytes.append(reinterpret_cast<const char*>(&SPILL_VERSION), sizeof SPILL_VERSION);
  bytes.resize(SPILL_ALIGNMENT, '\0');
  return bytes;
}

}  // namespace

std::vector<FilePath> SpillPlaces::with_room(int64_t n_bytes) {
  std::vector<FilePath> found;
  const size_t first = turn_.fetch_add(1);
  for (size_t i = 0; i < folders_.size(); ++i) {
    const FilePath& folder = folders_[(first + i) % folders_.size()];
    if (free_bytes_of(folder) >= n_bytes + keep_free_bytes_) found.push_back(folder);
  }
  return found;
}

arrow::Status SpillPlaces::full(int64_t n_bytes, const std::string& why, const Where& where) const {
  return fault("StorageError",
               "no room to spill " + std::to_string((n_bytes >> 20) + 1) + " MiB to any of " +
                   std::to_string(folders_.size()) + " folders" +
                   (why.empty() ? "" : " (" + why + ")") +
                   "; free space there, give more folders with --spill, or a larger --memory",
               where);
}

int RunWriter::add(Gathered& message, int64_t n_rows, int64_t n_bytes, uint32_t rows_crc32c) {
  SpillEntry entry{};
  entry.offset = offset_;
  entry.length = static_cast<uint64_t>(message.n_bytes());
  entry.rows = static_cast<uint64_t>(n_rows);
  entry.bytes = static_cast<uint64_t>(n_bytes);
  entry.file = file_;
  entry.rows_crc32c = rows_crc32c;
  Crc32c crc(cpu_);
  for (auto& piece : message.take()) {
    crc.add(piece->data(), piece->size());
    hold(std::move(piece));
  }
  entry.bytes_crc32c = crc.value();
  const uint64_t rest = entry.length % SPILL_ALIGNMENT;
  if (rest != 0) hold(arrow::Buffer::FromString(std::string(SPILL_ALIGNMENT - rest, '\0')));
  run_.entries.push_back(entry);
  return held_bytes_ >= WRITE_BYTES ? flush() : 0;
}

int RunWriter::flush() {
  const int error = disk_.write(fd_, held_);
  held_.clear();
  held_bytes_ = 0;
  return error;
}

void RunWriter::hold(std::shared_ptr<arrow::Buffer> piece) {
  offset_ += static_cast<uint64_t>(piece->size());
  held_bytes_ += piece->size();
  held_.push_back(std::move(piece));
}

SpillFiles::~SpillFiles() {
  for (const FilePath& file : files_) ::unlink(file.c_str());
  if (!index_path_.empty()) ::unlink(index_path_.c_str());
}

arrow::Status SpillFiles::add_run(int64_t n_bytes, const Fill& fill) {
  std::string why;
  if (settled()) ARROW_RETURN_NOT_OK(index(0).status());
  for (const FilePath& folder : places_->with_room(n_bytes)) {
    int error = 0;
    ARROW_ASSIGN_OR_RAISE(const bool done, try_run(folder, fill, error));
    if (done) return arrow::Status::OK();
    why = std::generic_category().message(error);
  }
  return places_->full(n_bytes, why, name_.where());
}

void SpillFiles::forget_last_run() {
  const std::lock_guard lock(mutex_);
  auto fewer = std::make_shared<SpillIndex>(*index_);
  fewer->runs.pop_back();
  index_ = std::move(fewer);
}

arrow::Status SpillFiles::settle() {
  const std::lock_guard lock(mutex_);
  std::string bytes = encode_index(*index_, name_, cpu_);
  std::vector<FilePath> tries = places_->with_room(static_cast<int64_t>(bytes.size()));
  if (!index_path_.empty()) tries.insert(tries.begin(), index_path_.parent_path());
  int error = 0;
  for (const FilePath& folder : tries) {
    error = write_index(folder, bytes);
    if (error == 0) {
      index_.reset();  // readers take what lies there
      return arrow::Status::OK();
    }
  }
  return places_->full(static_cast<int64_t>(bytes.size()),
                       std::generic_category().message(error), name_.where());
}

arrow::Result<std::shared_ptr<const SpillIndex>> SpillFiles::index(uint32_t partition) {
  const std::lock_guard lock(mutex_);
  if (index_ == nullptr) ARROW_RETURN_NOT_OK(load(partition));
  return index_;
}

arrow::Status SpillFiles::open(uint32_t file, uint32_t partition, OpenFile& out) const {
  FilePath path;
  {
    const std::lock_guard lock(mutex_);
    path = files_[file];
  }
  const std::string shown = path.filename().string();
  if (const int error = open_to_read(path, out)) {
    return lost(partition, shown, std::generic_category().message(error));
  }
  std::string found(SPILL_ALIGNMENT, '\0');
  const ssize_t n = ::pread(out.fd(), found.data(), found.size(), 0);
  if (n < static_cast<ssize_t>(found.size())) return lost(partition, shown, "it is cut off");
  return found == head_of_file() ? arrow::Status::OK()
                                 : lost(partition, shown, "it is no spill file of this version");
}

std::string SpillFiles::shown(uint32_t file) const {
  const std::lock_guard lock(mutex_);
  return files_[file].filename().string();
}

arrow::Status SpillFiles::lost(uint32_t partition, const std::string& file,
                               const std::string& why) const {
  return fault("PartitionLostError",
               "partition " + std::to_string(partition) + " of edge " +
                   std::to_string(name_.edge) + " from task " + name_.task() +
                   " can't be read from the spill file " + file + ": " + why +
                   "; run the job again",
               name_.where());
}

bool SpillFiles::settled() const {
  const std::lock_guard lock(mutex_);
  return index_ == nullptr && !index_path_.empty();
}

std::string SpillFiles::stem() const {
  return "e" + std::to_string(name_.edge) + "-t" + std::to_string(name_.producer.task) + "-a" +
         std::to_string(name_.producer.attempt) + "-" + std::to_string(places_->next_number());
}

// The number of our file in `folder`, begun when there is none.
int SpillFiles::file_in(const FilePath& folder, uint32_t& number, OpenFile& out) {
  const std::lock_guard lock(mutex_);
  for (number = 0; number < files_.size(); ++number) {
    if (files_[number].parent_path() != folder) continue;
    return places_->disk().open_to_append(files_[number], 0, out);
  }
  const FilePath path = folder / (stem() + ".arrows");
  if (const int error = places_->disk().open_to_append(path, O_EXCL, out)) return error;
  const int error = places_->disk().write(out.fd(), head_of_file());
  if (error == 0) {
    files_.push_back(path);
  } else {
    ::unlink(path.c_str());
  }
  return error;
}

// False, with an `error`, when the folder did not take it.
arrow::Result<bool> SpillFiles::try_run(const FilePath& folder, const Fill& fill, int& error) {
  OpenFile file;
  uint32_t number = 0;
  error = file_in(folder, number, file);
  if (error != 0) return false;
  struct stat begun {};
  if (::fstat(file.fd(), &begun) != 0) {
    error = errno;
    return false;
  }
  const auto begin = static_cast<uint64_t>(begun.st_size);
  RunWriter writer(places_->disk(), file.fd(), number, begin, cpu_);
  arrow::Result<int> filled = fill(writer);
  if (filled.ok() && *filled == 0) filled = writer.flush();
  if (!filled.ok() || *filled != 0) {
    (void)!::ftruncate(file.fd(), begun.st_size);  // else the next run begins behind
    ARROW_RETURN_NOT_OK(filled.status());
    error = *filled;
    return false;
  }
  const std::lock_guard lock(mutex_);
  auto more = std::make_shared<SpillIndex>();
  if (index_ != nullptr) *more = *index_;
  more->files.clear();
  for (const FilePath& known : files_) more->files.push_back(known.filename().string());
  more->runs.push_back(writer.take());
  index_ = std::move(more);
  return true;
}

int SpillFiles::write_index(const FilePath& folder, const std::string& bytes) {
  const FilePath path = folder / (stem() + ".index");
  OpenFile file;
  int error = places_->disk().open_to_append(path, O_EXCL, file);
  if (error == 0) error = places_->disk().write(file.fd(), bytes);
  if (error != 0) {
    ::unlink(path.c_str());
    return error;
  }
  const FilePath old = std::exchange(index_path_, path);
  if (!old.empty()) ::unlink(old.c_str());
  return 0;
}

arrow::Status SpillFiles::load(uint32_t partition) {  // under the lock
  const std::string shown = index_path_.filename().string();
  std::string bytes, wrong;
  if (const int error = read_whole(index_path_, bytes)) {
    return lost(partition, shown, std::generic_category().message(error));
  }
  auto found = decode_index(bytes, name_, n_partitions_, cpu_, wrong);
  if (!found || found->files.size() > files_.size()) {
    return lost(partition, shown, wrong.empty() ? "it belongs to other rows" : "it " + wrong);
  }
  index_ = std::make_shared<const SpillIndex>(*std::move(found));
  return arrow::Status::OK();
}

arrow::Result<std::vector<SpillEntry>> SpillReader::entries(size_t at) {
  ARROW_ASSIGN_OR_RAISE(const auto index, files_->index(partition_));
  if (at >= index->runs.size()) {
    return files_->lost(partition_, "of its index", "a run is missing");
  }
  const SpillRun& run = index->runs[at];
  const auto [first, last] = run.range(static_cast<int32_t>(partition_));
  return std::vector<SpillEntry>(run.entries.begin() + static_cast<std::ptrdiff_t>(first),
                                 run.entries.begin() + static_cast<std::ptrdiff_t>(last));
}

arrow::Status SpillReader::announce(const std::vector<SpillEntry>& entries) {
  if (entries.empty()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const int fd, open(entries.front().file));
  const uint64_t begin = entries.front().offset;
  const uint64_t end = entries.back().offset + entries.back().length;
  (void)::posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                        POSIX_FADV_WILLNEED);
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SpillReader::read(const SpillEntry& entry) {
  ARROW_ASSIGN_OR_RAISE(const int fd, open(entry.file));
  ARROW_ASSIGN_OR_RAISE(auto bytes, arrow::AllocateBuffer(static_cast<int64_t>(entry.length)));
  for (uint64_t done = 0; done < entry.length;) {
    const ssize_t n = ::pread(fd, bytes->mutable_data() + done, entry.length - done,
                              static_cast<off_t>(entry.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lost(entry, std::generic_category().message(errno));
    if (n == 0) return lost(entry, "it is cut off");
    done += static_cast<uint64_t>(n);
  }
  Crc32c crc(cpu_);
  crc.add(bytes->data(), bytes->size());
  if (crc.value() != entry.bytes_crc32c) {
    return lost(entry, "it is damaged: the checksum of a message differs");
  }
  return std::shared_ptr<arrow::Buffer>(std::move(bytes));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SpillReader::rows(const SpillEntry& entry,
                                                                     const SpillCodec& codec) {
  ARROW_ASSIGN_OR_RAISE(auto bytes, read(entry));
  auto rows = codec.decode(std::move(bytes));
  if (!rows.ok()) return lost(entry, rows.status().message().substr(0, 200));
  if ((*rows)->num_rows() != static_cast<int64_t>(entry.rows)) {
    return lost(entry, "a message has other rows than its index says");
  }
  return rows;
}

arrow::Status SpillReader::lost(const SpillEntry& entry, const std::string& why) const {
  return files_->lost(partition_, files_->shown(entry.file), why);
}

arrow::Result<int> SpillReader::open(uint32_t file) {
  OpenFile& found = open_[file];
  if (found.fd() < 0) ARROW_RETURN_NOT_OK(files_->open(file, partition_, found));
  return found.fd();
}

}  // namespace fabric
