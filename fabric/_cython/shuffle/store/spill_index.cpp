// The bytes of the index of spill files, and what is wrong with those that come back.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/spill.hpp"
#include "wire/crc32c.hpp"
#include "wire/proto.hpp"

namespace fabric {
namespace {

constexpr std::string_view INDEX_MAGIC = "FABINDEX";

uint32_t crc32c_of_bytes(std::string_view bytes, int cpu) {
  Crc32c crc(cpu);
  crc.add(bytes.data(), static_cast<int64_t>(bytes.size()));
  return crc.value();
}

template <class T>
std::string_view bytes_of_array(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
bool array_of_bytes(std::string_view bytes, std::vector<T>& out) {
  if (bytes.size() % sizeof(T) != 0) return false;
  out.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return true;
}

bool decode_run(std::string_view bytes, size_t n_files, int32_t n_partitions, SpillRun& out) {
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    if (in.field() == 1) out.broadcast = in.number() != 0;
    if (in.field() == 2) in.require(array_of_bytes(in.bytes(), out.first));
    if (in.field() == 3) in.require(array_of_bytes(in.bytes(), out.entries));
  });
  const size_t n = out.broadcast ? 1 : static_cast<size_t>(n_partitions);
  return whole && out.first.size() == n + 1 && out.first.front() == 0 &&
         std::is_sorted(out.first.begin(), out.first.end()) &&
         out.first.back() == out.entries.size() &&
         std::all_of(out.entries.begin(), out.entries.end(),
                     [&](const SpillEntry& entry) { return entry.file < n_files; });
}

}  // namespace

std::string encode_index(const SpillIndex& index, const OutputName& name, int cpu) {
  ProtoWriter out;
  out.number(1, SPILL_VERSION);
  out.text(2, name.job);
  out.number(3, name.edge);
  out.number(4, name.producer.task);
  out.number(5, name.producer.attempt);
  for (const std::string& file : index.files) out.message(6, file);
  for (const SpillRun& run : index.runs) {
    ProtoWriter inner;
    inner.number(1, run.broadcast);
    inner.message(2, bytes_of_array(run.first));
    inner.message(3, bytes_of_array(run.entries));
    out.message(7, inner.bytes());
  }
  const uint32_t crc = crc32c_of_bytes(out.bytes(), cpu);
  std::string bytes(INDEX_MAGIC);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return bytes + out.take();
}

std::optional<SpillIndex> decode_index(std::string_view bytes, const OutputName& name,
                                       int32_t n_partitions, int cpu, std::string& wrong) {
  const auto refuse = [&](const char* why) {
    wrong = why;
    return std::nullopt;
  };
  uint32_t crc = 0;
  if (bytes.size() < INDEX_MAGIC.size() + sizeof crc) return refuse("is cut off");
  if (!bytes.starts_with(INDEX_MAGIC)) return refuse("is no index");
  std::memcpy(&crc, bytes.data() + INDEX_MAGIC.size(), sizeof crc);
  bytes.remove_prefix(INDEX_MAGIC.size() + sizeof crc);
  if (crc32c_of_bytes(bytes, cpu) != crc) return refuse("is damaged: its checksum differs");
  SpillIndex found;
  uint32_t version = 0;
  OutputName whose;
  std::vector<std::string_view> runs;
  const bool whole = read_fields(bytes, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: version = in.number32(); break;
      case 2: whose.job = in.text(); break;
      case 3: whose.edge = in.number32(); break;
      case 4: whose.producer.task = in.number32(); break;
      case 5: whose.producer.attempt = in.number32(); break;
      case 6: found.files.emplace_back(in.bytes()); break;
      case 7: runs.push_back(in.bytes()); break;
      default: break;
    }
  });
  if (!whole) return refuse("is damaged");
  if (version != SPILL_VERSION) return refuse("has another version");
  if (whose.job != name.job || whose.edge != name.edge || whose.producer != name.producer) {
    return refuse("belongs to other rows");
  }
  for (const std::string_view run : runs) {
    if (!decode_run(run, found.files.size(), n_partitions, found.runs.emplace_back())) {
      return refuse("is damaged");
    }
  }
  return found;
}

}  // namespace fabric
