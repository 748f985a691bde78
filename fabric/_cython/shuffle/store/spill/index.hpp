// Where the messages of each partition lie in the spill files of one task attempt.
//
// One job: the index, to bytes and back. Bytes are a magic, a CRC32C of the rest, and protobuf
// whose arrays are those of this machine: nobody else reads them. What comes back was checked:
// version, checksum, whose it is, and that every number stays inside.
#pragma once
#include <optional>

#include "crc32c.hpp"
#include "wire/fault.hpp"
#include "wire/proto.hpp"
#include "wire/ticket.hpp"

namespace fabric {

constexpr std::string_view SPILL_MAGIC = "FABSPILL", INDEX_MAGIC = "FABINDEX";
constexpr uint32_t SPILL_VERSION = 1;

inline uint32_t crc32c_of_bytes(std::string_view bytes, int cpu) {
  Crc32c crc(cpu);
  crc.add(bytes.data(), static_cast<int64_t>(bytes.size()));
  return crc.value();
}

// Whose rows: of which attempt of which task on which edge.
struct OutputName {
  std::string agent, job;
  uint32_t edge = 0;
  ProducerAttempt producer{0, 0};

  std::string task() const {
    return std::to_string(producer.task) + "#" + std::to_string(producer.attempt);
  }
  Where where() const { return {.job = job, .task = task(), .agent = agent}; }
};

// One message: its place, what is in it, and the CRC32C of its rows and of its bytes.
struct SpillEntry {
  uint64_t offset, length, rows, bytes;
  uint32_t file, rows_crc32c, bytes_crc32c, unused;
};
static_assert(sizeof(SpillEntry) == 48);

// What was written at once: the messages of partition p are entries first[p] to first[p + 1].
// Those of a broadcast are all under partition 0.
struct SpillRun {
  bool broadcast = false;
  std::vector<uint64_t> first;
  std::vector<SpillEntry> entries;

  std::pair<size_t, size_t> range(int32_t partition) const {
    const size_t p = broadcast ? 0 : static_cast<size_t>(partition);
    return {first[p], first[p + 1]};
  }
};

struct SpillIndex {
  std::vector<std::string> files;  // names in their folders
  std::vector<SpillRun> runs;
};

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

inline std::string encode_index(const SpillIndex& index, const OutputName& name, int cpu) {
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

inline bool decode_run(std::string_view bytes, size_t n_files, int32_t n_partitions,
                       SpillRun& out) {
  ProtoReader in(bytes);
  bool whole = true;
  while (whole && in.next()) {
    if (in.field() == 1) out.broadcast = in.number() != 0;
    if (in.field() == 2) whole = array_of_bytes(in.bytes(), out.first);
    if (in.field() == 3) whole = array_of_bytes(in.bytes(), out.entries);
  }
  const size_t n = out.broadcast ? 1 : static_cast<size_t>(n_partitions);
  return whole && in.ok() && out.first.size() == n + 1 && out.first.front() == 0 &&
         std::is_sorted(out.first.begin(), out.first.end()) &&
         out.first.back() == out.entries.size() &&
         std::all_of(out.entries.begin(), out.entries.end(),
                     [&](const SpillEntry& entry) { return entry.file < n_files; });
}

// What is wrong with the bytes goes to `wrong`.
inline std::optional<SpillIndex> decode_index(std::string_view bytes, const OutputName& name,
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
  ProtoReader in(bytes);
  SpillIndex found;
  uint32_t version = 0;
  OutputName whose;
  std::vector<std::string_view> runs;
  while (in.next()) {
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
  }
  if (!in.ok()) return refuse("is damaged");
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
