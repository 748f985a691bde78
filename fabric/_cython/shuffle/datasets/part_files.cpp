// Manifests to and from bytes, in place and with fewer partitions; files checked and read.
#include "datasets/part_files.hpp"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/util/base64.h>
#include <arrow/util/crc32.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "flight/directory.hpp"
#include "store/message.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"
#include "wire/header.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

constexpr int64_t MANIFEST_VERSION = 1;

std::string hex32(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// Reads what `encode_manifest` wrote, piece by piece; a wrong piece makes it not `ok`.
class ManifestScan {
 public:
  explicit ManifestScan(std::string_view text) : left_(text) {}
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }

  bool at(std::string_view piece) const { return ok_ && left_.starts_with(piece); }
  ManifestScan& take(std::string_view piece) {
    ok_ = at(piece);
    if (ok_) left_.remove_prefix(piece.size());
    return *this;
  }
  template <class Number>
  ManifestScan& number(Number& out) {
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
    ok_ = ok_ && error == std::errc();
    if (ok_) left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    return *this;
  }
  ManifestScan& text(std::string& out) {
    take("\"");
    const size_t end = left_.find('"');
    ok_ = ok_ && end != left_.npos;
    if (ok_) {
      out = left_.substr(0, end);
      left_.remove_prefix(end + 1);
    }
    return *this;
  }

 private:
  std::string_view left_;
  bool ok_ = true;
};

bool scan_files(ManifestScan& scan, std::map<uint32_t, PartFile>& out) {
  scan.take("{");
  while (scan.ok() && !scan.at("}")) {
    uint32_t partition = 0;
    PartFile file;
    if (!out.empty()) scan.take(", ");
    scan.take("\"").number(partition).take("\": [").number(file.rows).take(", ");
    scan.number(file.n_bytes).take(", ").number(file.crc32).take("]");
    out[partition] = file;
  }
  return scan.take("}").ok();
}

// Whether `name` is that of a copied partition of the part `stem`.
bool is_copy(const std::string& stem, const std::string& name) {
  const std::string prefix = stem + ".p";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == name.npos;
}

// What a manifest does not name any more, also what a crash left of that.
void remove_unnamed(const FilePath& folder, const std::map<uint32_t, PartFile>& files) {
  std::set<std::string> named;
  for (const auto& [partition, file] : files) named.insert(part_name(partition));
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!named.contains(entry.path().filename())) std::filesystem::remove(entry.path(), code);
  }
}

// A manifest without what is not `kept`; rows and sum stay those of the receipt.
int keep_in_manifest(const SealedPart& part, const Partitions& kept) {
  const std::lock_guard lock(part.publishing);
  std::string bytes;
  const int error = read_whole(part.manifest(), bytes);
  if (error == ENOENT || error == ENOTDIR) return 0;
  if (error != 0) return error;
  auto manifest = decode_manifest(bytes);
  if (!manifest.ok()) return 0;  // damaged: nothing near it is removed
  const FilePath folder = part.transaction / manifest->folder;
  const size_t n_gone = std::erase_if(
      manifest->files, [&](const auto& file) { return !kept.contains(file.first); });
  std::error_code code;
  if (manifest->files.empty()) {
    std::filesystem::remove(part.manifest(), code);
    remove_tree(folder);
    return code.value();
  }
  if (n_gone > 0) {
    const auto encoded = encode_manifest(*manifest);
    if (!encoded.ok()) return EIO;
    const FilePath aside = part.transaction / (manifest->folder + ".aside");
    if (const int failed = replace_file(part.disk, aside, part.manifest(), *encoded)) return failed;
    if (const int failed = part.disk.sync_folder(part.transaction)) return failed;
  }
  remove_unnamed(folder, manifest->files);
  return 0;
}

// <writer>-<attempt>-<12 hexadecimal digits>, of a copy <writer>-<attempt>.p<partition>-<...>
bool is_attempt(const std::string& name) {
  const size_t last = name.rfind('-');
  if (last == name.npos || name.size() - last != 13) return false;
  const size_t first = name.rfind('-', last - 1);
  if (last == 0 || first == name.npos || first == 0 || last - first < 2) return false;
  size_t end = name.find_first_not_of("0123456789", first + 1);
  if (name.compare(end, 2, ".p") == 0) end = name.find_first_not_of("0123456789", end + 2);
  return end == last && name.find_first_not_of("0123456789abcdef", last + 1) == name.npos;
}

constexpr size_t KNOWN_MAX = 65'536;  // verified files

arrow::Status unreadable(int error, const std::string& shown, const std::string& agent) {
  if (error != ENOENT && error != ENOTDIR) return storage_fault(error, "can't read " + shown);
  return fault("PartitionLostError", "a file of " + shown + " is gone", {.agent = agent});
}

class PartStream final : public MessageStream {
 public:
  PartStream(DatasetTicket ticket, std::shared_ptr<arrow::Schema> schema,
             std::vector<WholeFile> files, PartOptions options)
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
      if (error != 0) return unreadable(error, shown_, options_.agent);
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
  PartOptions options_;
  size_t index_ = 0;
  std::shared_ptr<arrow::RecordBatchReader> reader_;
  std::string shown_;
  uint64_t sequence_ = 0, rows_ = 0;
  bool ended_ = false;
};

}  // namespace

std::string part_name(uint32_t partition, const char* ending) {
  char text[24];
  std::snprintf(text, sizeof text, "p%05u%s", partition, ending);
  return text;
}

arrow::Result<std::string> encode_manifest(const Manifest& manifest) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, arrow::ipc::SerializeSchema(*manifest.schema));
  std::map<std::string, PartFile> sorted;  // as text, like JSON's keys
  for (const auto& [partition, file] : manifest.files) sorted[std::to_string(partition)] = file;
  std::string files;
  for (const auto& [partition, file] : sorted) {
    files += (files.empty() ? "\"" : ", \"") + partition + "\": [" + std::to_string(file.rows) +
             ", " + std::to_string(file.n_bytes) + ", " + std::to_string(file.crc32) + "]";
  }
  const std::string text =
      "{\"crc32c_sum\": " + std::to_string(manifest.crc32c_sum) + ", \"files\": {" + files +
      "}, \"folder\": \"" + manifest.folder + "\", \"rows\": " + std::to_string(manifest.rows) +
      ", \"schema\": \"" + arrow::util::base64_encode(std::string_view(*schema)) +
      "\", \"version\": " + std::to_string(MANIFEST_VERSION) + "}";
  return text + "\n" + hex32(arrow::internal::crc32(0, text.data(), text.size())) + "\n";
}

arrow::Result<Manifest> decode_manifest(std::string_view data) {
  const size_t end = data.find('\n');
  const std::string_view text = data.substr(0, end);
  const std::string check = hex32(arrow::internal::crc32(0, text.data(), text.size())) + "\n";
  if (end == data.npos || data.substr(end + 1) != check) {
    return fault("DataError", "the manifest is damaged: its checksum differs");
  }
  Manifest manifest;
  std::string schema;
  int64_t version = 0;
  const size_t place = text.rfind("\"version\": ");
  if (place != text.npos) ManifestScan(text.substr(place)).take("\"version\": ").number(version);
  if (version != MANIFEST_VERSION) {
    return fault("DataError", "the manifest has version " + std::to_string(version) +
                                  ", expected " + std::to_string(MANIFEST_VERSION));
  }
  ManifestScan scan(text);
  scan.take("{\"crc32c_sum\": ").number(manifest.crc32c_sum).take(", \"files\": ");
  scan_files(scan, manifest.files);
  scan.take(", \"folder\": ").text(manifest.folder).take(", \"rows\": ").number(manifest.rows);
  scan.take(", \"schema\": ").text(schema).take(", \"version\": ").number(version).take("}");
  if (!scan.done()) return fault("DataError", "the manifest is damaged: it can't be read");
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, arrow::util::base64_decode(schema));
  ARROW_ASSIGN_OR_RAISE(manifest.schema, read_schema(bytes));
  return manifest;
}

int replace_file(Disk& disk, const FilePath& aside, const FilePath& place,
                 const std::string& bytes) {
  OpenFile file;
  int error = disk.open_to_append(aside, O_EXCL, file);
  if (error == 0) error = disk.write(file.fd(), bytes);
  if (error == 0) error = disk.sync(file.fd());
  if (error == 0) error = disk.rename(aside, place);
  std::error_code ignored;
  if (error != 0) std::filesystem::remove(aside, ignored);
  return error;
}

int keep_partitions(SealedPart part, const Partitions& kept) {
  if (const int error = keep_in_manifest(part, kept)) return error;
  std::vector<std::string> copies;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(part.transaction, code)) {
    if (entry.path().extension() != ".manifest") continue;
    if (is_copy(part.stem, entry.path().stem())) copies.push_back(entry.path().stem());
  }
  for (const std::string& copy : copies) {
    part.stem = copy;
    if (const int error = keep_in_manifest(part, kept)) return error;
  }
  ::rmdir(part.transaction.c_str());  // only when it is empty
  return 0;
}

std::vector<std::string> folders_in(const FilePath& path) {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(path, code)) {
    if (entry.symlink_status(code).type() == std::filesystem::file_type::directory) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void remove_leftovers(const FilePath& transaction) {
  std::set<std::string> sealed;
  std::vector<FilePath> paths;
  bool damaged = false;  // then nothing near it is removed
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(transaction, code)) {
    paths.push_back(entry.path());
    if (entry.path().extension() != ".manifest") continue;
    std::string bytes;
    read_whole(entry.path(), bytes);
    const auto manifest = decode_manifest(bytes);
    damaged = damaged || !manifest.ok();
    if (manifest.ok()) sealed.insert(manifest->folder);
  }
  for (const FilePath& path : paths) {
    const std::string name = path.filename();
    if (is_attempt(name) && !sealed.contains(name) && !damaged) {
      remove_tree(path);
    } else if (path.extension() == ".aside") {
      std::filesystem::remove(path, code);
    }
  }
}

arrow::Status VerifiedFiles::verify(WholeFile& whole, const PartFile& expected) {
  struct stat status{};
  int error = open_to_read(whole.path, whole.file);
  if (error == 0 && ::fstat(whole.file.fd(), &status) != 0) error = errno;
  if (error != 0) return unreadable(error, whole.shown, agent_);
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

arrow::Status VerifiedFiles::compare(const WholeFile& whole, const PartFile& expected) const {
  int64_t n_bytes = 0;
  uint32_t crc32 = 0;
  const int error = read_through(whole.file.fd(), [&](const char* data, size_t n) {
    n_bytes += static_cast<int64_t>(n);
    crc32 = arrow::internal::crc32(crc32, data, n);
  });
  if (error != 0) return unreadable(error, whole.shown, agent_);
  if (n_bytes == expected.n_bytes && crc32 == expected.crc32) return arrow::Status::OK();
  return fault("DataError", "a file of " + whole.shown + " is " +
                                (n_bytes < expected.n_bytes ? "cut short" : "damaged") +
                                ": it has " + std::to_string(n_bytes) + " bytes of " +
                                std::to_string(expected.n_bytes) +
                                ", or its checksum differs; write the dataset again",
               {.agent = agent_});
}

std::unique_ptr<MessageStream> part_stream(DatasetTicket ticket,
                                           std::shared_ptr<arrow::Schema> schema,
                                           std::vector<WholeFile> files, PartOptions options) {
  return std::make_unique<PartStream>(std::move(ticket), std::move(schema), std::move(files),
                                      std::move(options));
}

}  // namespace fabric
