// The spill files of one task attempt: messages in runs, and the index that tells where they lie.
//
// One job: files from the first run to the last reader, who lets them go. Usually one file; a run
// for which its disk has no room begins another in the next folder. Until the output is sealed the
// index is in memory; then it lies beside the file and is checked when somebody reads.
#pragma once
#include <mutex>

#include "store/spill/places.hpp"
#include "store/spill/run_writer.hpp"

namespace fabric {

class SpillFiles {
 public:
  SpillFiles(std::shared_ptr<SpillPlaces> places, OutputName name, int32_t n_partitions, int cpu)
      : places_(std::move(places)), name_(std::move(name)), n_partitions_(n_partitions),
        cpu_(cpu) {}
  ~SpillFiles() {
    for (const FilePath& file : files_) ::unlink(file.c_str());
    if (!index_path_.empty()) ::unlink(index_path_.c_str());
  }
  SpillFiles(const SpillFiles&) = delete;
  SpillFiles& operator=(const SpillFiles&) = delete;

  const OutputName& name() const { return name_; }

  // Write a run by `fill(writer)`, which gives an errno and is called again for the next folder
  // when its disk turns out to be full. Nothing is left of a run that failed. One thread at a time.
  template <class Fill>
  arrow::Status add_run(int64_t n_bytes, Fill fill) {
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

  // The run that was added last, and that nobody has read, is not there.
  void forget_last_run() {
    const std::lock_guard lock(mutex_);
    auto fewer = std::make_shared<SpillIndex>(*index_);
    fewer->runs.pop_back();
    index_ = std::move(fewer);
  }

  // From now on the index lies on the disk; again after every later run.
  arrow::Status settle() {
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

  // The index as it lies on the disk, checked once.
  arrow::Result<std::shared_ptr<const SpillIndex>> index(uint32_t partition) {
    const std::lock_guard lock(mutex_);
    if (index_ == nullptr) ARROW_RETURN_NOT_OK(load(partition));
    return index_;
  }

  // Open the file of that number: a descriptor whose file was begun by us, in this version.
  arrow::Status open(uint32_t file, uint32_t partition, OpenFile& out) const {
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
    return found == head() ? arrow::Status::OK()
                           : lost(partition, shown, "it is no spill file of this version");
  }

  std::string shown(uint32_t file) const {
    const std::lock_guard lock(mutex_);
    return files_[file].filename().string();
  }

  arrow::Status lost(uint32_t partition, const std::string& file, const std::string& why) const {
    return fault("PartitionLostError",
                 "partition " + std::to_string(partition) + " of edge " +
                     std::to_string(name_.edge) + " from task " + name_.task() +
                     " can't be read from the spill file " + file + ": " + why +
                     "; run the job again",
                 name_.where());
  }

 private:
  bool settled() const {
    const std::lock_guard lock(mutex_);
    return index_ == nullptr && !index_path_.empty();
  }

  static std::string head() {
    std::string bytes(SPILL_MAGIC);
    bytes.append(reinterpret_cast<const char*>(&SPILL_VERSION), sizeof SPILL_VERSION);
    bytes.resize(SPILL_ALIGNMENT, '\0');
    return bytes;
  }

  std::string stem() const {
    return "e" + std::to_string(name_.edge) + "-t" + std::to_string(name_.producer.task) + "-a" +
           std::to_string(name_.producer.attempt) + "-" + std::to_string(places_->next_number());
  }

  // The number of our file in `folder`, begun when there is none.
  int file_in(const FilePath& folder, uint32_t& number, OpenFile& out) {
    const std::lock_guard lock(mutex_);
    int fd = -1;
    for (number = 0; number < files_.size(); ++number) {
      if (files_[number].parent_path() != folder) continue;
      const int error = places_->disk().open_to_append(files_[number], 0, fd);
      out = OpenFile(fd);
      return error;
    }
    const FilePath path = folder / (stem() + ".arrows");
    int error = places_->disk().open_to_append(path, O_EXCL, fd);
    out = OpenFile(fd);
    if (error != 0) return error;
    std::string bytes = head();
    std::vector<iovec> vectors{{bytes.data(), bytes.size()}};
    error = places_->disk().write(fd, vectors);
    if (error == 0) {
      files_.push_back(path);
    } else {
      ::unlink(path.c_str());
    }
    return error;
  }

  // False, with an `error`, when the folder did not take it.
  template <class Fill>
  arrow::Result<bool> try_run(const FilePath& folder, Fill& fill, int& error) {
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

  int write_index(const FilePath& folder, const std::string& bytes) {
    const FilePath path = folder / (stem() + ".index");
    int fd = -1;
    int error = places_->disk().open_to_append(path, O_EXCL, fd);
    const OpenFile file(fd);
    std::vector<iovec> vectors{{const_cast<char*>(bytes.data()), bytes.size()}};
    if (error == 0) error = places_->disk().write(fd, vectors);
    if (error != 0) {
      ::unlink(path.c_str());
      return error;
    }
    const FilePath old = std::exchange(index_path_, path);
    if (!old.empty()) ::unlink(old.c_str());
    return 0;
  }

  arrow::Status load(uint32_t partition) {  // under the lock
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

  const std::shared_ptr<SpillPlaces> places_;
  const OutputName name_;
  const int32_t n_partitions_;
  const int cpu_;
  mutable std::mutex mutex_;  // of all below
  std::vector<FilePath> files_;
  FilePath index_path_;
  std::shared_ptr<const SpillIndex> index_;  // null: it lies on the disk
};

}  // namespace fabric
