// The manifest of one sealed attempt: which files it has, and their checksums.
//
// One job: to and from bytes: two lines, JSON with sorted keys, and the CRC-32 of the first. It is
// written last, by rename: an attempt is there when its manifest is. Partitions without rows are
// named and have no file.
#pragma once
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/base64.h>
#include <arrow/util/crc32.h>

#include <charconv>
#include <map>

#include "wire/fault.hpp"

namespace fabric {

constexpr int64_t MANIFEST_VERSION = 1;

inline std::string part_name(uint32_t partition, const char* ending = ".arrows") {
  char text[24];
  std::snprintf(text, sizeof text, "p%05u%s", partition, ending);
  return text;
}

struct PartFile {
  int64_t rows = 0, n_bytes = 0;
  uint32_t crc32 = 0;  // of all its bytes
};

struct Manifest {
  std::string folder;  // beside the manifest
  std::shared_ptr<arrow::Schema> schema;
  int64_t rows = 0;
  uint32_t crc32c_sum = 0;
  std::map<uint32_t, PartFile> files;
};

inline std::string hex32(uint32_t value) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

inline arrow::Result<std::string> encode_manifest(const Manifest& manifest) {
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

inline bool scan_files(ManifestScan& scan, std::map<uint32_t, PartFile>& out) {
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

// A manifest; DataError when a single byte of it is not as it was written.
inline arrow::Result<Manifest> decode_manifest(std::string_view data) {
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
  arrow::io::BufferReader reader{arrow::Buffer::FromString(bytes)};
  arrow::ipc::DictionaryMemo memo;
  ARROW_ASSIGN_OR_RAISE(manifest.schema, arrow::ipc::ReadSchema(&reader, &memo));
  return manifest;
}

}  // namespace fabric
