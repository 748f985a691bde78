// What is where below the folder of an agent: found, written, copied, kept, discarded and swept.
#include "datasets/folder.hpp"

#include <arrow/status.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "datasets/part_files.hpp"
#include "datasets/part_writer.hpp"
#include "flight/paths.hpp"
#include "flight/text.hpp"
#include "store/message.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

// Names that may become a part of a path, checked with the words of `fabric/ids.py`: fine when
// `name` is safe in a path and a descriptor, else an error of `kind`.
arrow::Status check_name(std::string_view name, const std::string& what,
                         std::string_view kind = "ConfigError") {
  if (is_name(name)) return arrow::Status::OK();
  return fault(kind, what + " " + quoted(name) + " is not allowed; use 1 to 128 letters, digits, "
                     "'.', '-' or '_', beginning with a letter or digit");
}

class AgentFolder final : public DatasetFolder {
 public:
  AgentFolder(FilePath root, std::string agent, std::shared_ptr<PartWriter::Shared> shared)
      : root_(std::move(root)), agent_(agent), shared_(std::move(shared)),
        verified_(std::move(agent)) {}

  std::string root() const override { return root_.string(); }
  int cpu() const override { return shared_->cpu; }
  void fail_at(size_t step, int error) override {
    shared_->disk.fail(static_cast<DiskStep>(step), error);
  }

  arrow::Result<std::shared_ptr<OwnerWriter>> open_write(
      const std::string& name, const std::string& transaction, const std::string& writer,
      uint32_t attempt, std::shared_ptr<arrow::Schema> schema) override {
    return open_part(name, {transaction, writer, attempt}, "", std::move(schema));
  }

  arrow::Result<std::shared_ptr<OwnerWriter>> open_copy(
      const DatasetTicket& ticket, std::shared_ptr<arrow::Schema> schema) override {
    if (ticket.parts.size() != 1) return fault("InternalError", "a copy is of one part");
    return open_part(ticket.name, ticket.parts[0], copy_ending(ticket.partition),
                     std::move(schema));
  }

  arrow::Result<bool> has(const DatasetTicket& ticket) const override {
    for (const DatasetPart& part : ticket.parts) {
      ARROW_ASSIGN_OR_RAISE(const auto manifest, manifest_of(ticket, part));
      if (!manifest || !manifest->files.contains(ticket.partition)) return false;
    }
    return true;
  }

  arrow::Result<std::unique_ptr<MessageStream>> read(const DatasetTicket& ticket,
                                                     std::shared_ptr<arrow::Schema> schema,
                                                     bool headers) override {
    std::vector<Manifest> manifests;
    for (const DatasetPart& part : ticket.parts) {
      ARROW_ASSIGN_OR_RAISE(auto manifest, manifest_of(ticket, part));
      if (!manifest) {
        const char* why = is_view(part) ? ": the view has gone on, or its job began again; read it "
                                          "again"
                                        : "";
        return fault("PartitionLostError", shown(ticket, part) + " is not on this agent" + why,
                     {.agent = agent_});
      }
      manifests.push_back(std::move(*manifest));
    }
    if (!manifests.empty()) schema = manifests[0].schema;
    std::vector<WholeFile> files;
    for (size_t i = 0; i < manifests.size(); ++i) {
      ARROW_RETURN_NOT_OK(add_file(ticket, ticket.parts[i], manifests[i], files));
    }
    return part_stream(ticket, std::move(schema), std::move(files), {headers, cpu(), agent_});
  }

  arrow::Status discard(const std::string& name, const std::string& transaction) override {
    ARROW_ASSIGN_OR_RAISE(const FilePath folder, inside(name, transaction));
    const TransactionKey key{name, transaction};
    std::vector<std::shared_ptr<PartWriter>> held;  // outlives the lock
    const std::lock_guard lock(mutex_);
    if (discarded_.insert(key).second) discarded_in_turn_.push_back(key);
    if (discarded_in_turn_.size() > DISCARDED_MAX) {
      discarded_.erase(discarded_in_turn_.front());
      discarded_in_turn_.pop_front();
    }
    for (const auto& known : writers_) {
      if (auto writer = known.lock(); writer != nullptr && writer->is_open_in(folder)) {
        writer->refuse();
        held.push_back(std::move(writer));
      }
    }
    std::error_code code;
    for (int n = 0; n < REMOVALS_MAX; ++n) {  // a writer may add a file while it is emptied
      remove_tree(folder);
      if (!std::filesystem::exists(folder, code)) break;
    }
    unused_since_.erase(key);
    ::rmdir(folder.parent_path().c_str());  // only when it is empty
    return arrow::Status::OK();
  }

  arrow::Status keep(const std::string& name, const Partitions& kept,
                     const std::vector<DatasetPart>& parts) override {
    for (const DatasetPart& part : parts) {
      ARROW_ASSIGN_OR_RAISE(const FilePath folder, inside(name, part.transaction));
      ARROW_RETURN_NOT_OK(check_name(part.writer, "writer"));
      const SealedPart sealed{folder, stem_of(part), shared_->disk, shared_->publishing};
      const int error = keep_partitions(sealed, kept);
      if (error != 0) return storage_fault(error, "can't remove partitions of " + quoted(name));
    }
    ::rmdir((root_ / name).c_str());  // only when it is empty
    return arrow::Status::OK();
  }

  std::vector<std::string> sweep(const std::set<TransactionKey>& live, double now_s,
                                 double age_s) override {
    std::vector<TransactionKey> old;
    {
      std::vector<std::shared_ptr<PartWriter>> held;
      const std::lock_guard lock(mutex_);
      std::map<TransactionKey, double> unused;
      for (const TransactionKey& key : here()) {
        if (live.contains(key) || is_written(key, held)) continue;
        const auto known = unused_since_.find(key);
        unused[key] = known == unused_since_.end() ? now_s : known->second;
        if (now_s - unused[key] >= age_s) old.push_back(key);
      }
      unused_since_ = std::move(unused);
    }
    std::vector<std::string> gone;
    for (const auto& [name, transaction] : old) {
      if (discard(name, transaction).ok()) gone.push_back(name + "/" + transaction);
    }
    return gone;
  }

  void set_wanted(Wanted wanted) override { wanted_ = std::move(wanted); }

  // After a crash: attempts that no manifest names were never acknowledged.
  void remove_unsealed() const {
    for (const auto& [name, transaction] : here()) remove_leftovers(root_ / name / transaction);
  }

 private:
  static constexpr int REMOVALS_MAX = 10;
  static constexpr size_t DISCARDED_MAX = 4096, OPEN_AT_ONCE_MAX = 16;

  // The folder of a transaction, certainly below ours.
  arrow::Result<FilePath> inside(const std::string& name, const std::string& transaction) const {
    ARROW_RETURN_NOT_OK(check_name(name, "dataset name", "NotFoundError"));
    ARROW_RETURN_NOT_OK(check_name(transaction, "transaction", "NotFoundError"));
    // Looked at link by link: a path resolved as a whole fails while another removes it.
    const FilePath path = root_ / name / transaction;
    std::error_code code;
    if (std::filesystem::is_symlink(path.parent_path(), code) ||
        std::filesystem::is_symlink(path, code)) {
      return fault("NotFoundError",
                   "dataset " + quoted(name) + " does not lie in this agent's folder");
    }
    return path;
  }

  static std::string shown(const DatasetTicket& ticket, const DatasetPart& part) {
    return "partition " + std::to_string(ticket.partition) + " of dataset " + quoted(ticket.name) +
           " from writer " + part.writer + "#" + std::to_string(part.attempt) + " of " +
           part.transaction;
  }

  static bool is_view(const DatasetPart& part) { return part.transaction.starts_with("view."); }

  static std::string stem_of(const DatasetPart& part) {
    return part.writer + "-" + std::to_string(part.attempt);
  }
  static std::string copy_ending(uint32_t partition) { return "." + part_name(partition, ""); }

  arrow::Result<std::shared_ptr<PartWriter>> open_part(const std::string& name,
                                                       const DatasetPart& part,
                                                       const std::string& ending,
                                                       std::shared_ptr<arrow::Schema> schema) {
    ARROW_ASSIGN_OR_RAISE(const FilePath folder, inside(name, part.transaction));
    ARROW_RETURN_NOT_OK(check_name(part.writer, "writer"));
    const std::string shown = name + "/" + part.transaction + "/" + part.writer + "#" +
                              std::to_string(part.attempt) + ending;
    const std::lock_guard lock(mutex_);
    if (discarded_.contains({name, part.transaction})) {  // a put that was still on its way
      return fault("NotFoundError",
                   "put " + shown + " comes too late: the transaction was aborted");
    }
    unused_since_.erase({name, part.transaction});
    ARROW_ASSIGN_OR_RAISE(auto opened, PartWriter::open(shared_, folder, stem_of(part) + ending,
                                                        std::move(schema), shown));
    std::erase_if(writers_, [](const auto& known) { return known.expired(); });
    writers_.push_back(opened);
    return opened;
  }

  // The manifest that names the ticket's partition of a part: the attempt's own or that of a copy;
  // else the own one, if it is here.
  arrow::Result<std::optional<Manifest>> manifest_of(const DatasetTicket& ticket,
                                                     const DatasetPart& part) const {
    if (wanted_ && is_view(part)) {
      ARROW_RETURN_NOT_OK(wanted_(ticket.name, part.transaction, ticket.partition));
    }
    const std::string stem = stem_of(part);
    ARROW_ASSIGN_OR_RAISE(auto own, sealed(ticket, part, stem));
    if (own && own->files.contains(ticket.partition)) return own;
    ARROW_ASSIGN_OR_RAISE(auto copy, sealed(ticket, part, stem + copy_ending(ticket.partition)));
    return copy ? std::move(copy) : std::move(own);
  }

  // The manifest of that name; none when it is not there.
  arrow::Result<std::optional<Manifest>> sealed(const DatasetTicket& ticket,
                                                const DatasetPart& part,
                                                const std::string& stem) const {
    ARROW_RETURN_NOT_OK(check_name(part.writer, "writer"));
    ARROW_ASSIGN_OR_RAISE(const FilePath folder, inside(ticket.name, part.transaction));
    std::string bytes;
    const int error = read_whole(folder / (stem + ".manifest"), bytes);
    const std::string what = shown(ticket, part);
    if (error == ENOENT || error == ENOTDIR) return std::nullopt;
    if (error != 0) return storage_fault(error, "can't read " + what);
    auto manifest = decode_manifest(bytes);
    if (manifest.ok()) return std::move(*manifest);
    const std::string text = manifest.status().message();
    const std::string kind = "DataError: ";
    return fault("DataError",
                 what + ": " + (text.starts_with(kind) ? text.substr(kind.size()) : text),
                 {.agent = agent_});
  }

  // The file of a part, once its bytes are known to be those written; none when it has no rows.
  arrow::Status add_file(const DatasetTicket& ticket, const DatasetPart& part,
                         const Manifest& manifest, std::vector<WholeFile>& out) {
    const auto expected = manifest.files.find(ticket.partition);
    if (expected == manifest.files.end()) {
      return fault("PartitionLostError", shown(ticket, part) + " does not belong to this agent",
                   {.agent = agent_});
    }
    if (expected->second.rows == 0) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const FilePath folder, inside(ticket.name, part.transaction));
    const FilePath path = folder / manifest.folder / part_name(ticket.partition);
    WholeFile whole{path, shown(ticket, part), {}};
    ARROW_RETURN_NOT_OK(verified_.verify(whole, expected->second));
    if (out.size() >= OPEN_AT_ONCE_MAX) whole.file = OpenFile();
    out.push_back(std::move(whole));
    return arrow::Status::OK();
  }

  std::vector<TransactionKey> here() const {
    std::vector<TransactionKey> keys;
    for (const std::string& name : folders_in(root_)) {
      for (const std::string& transaction : folders_in(root_ / name)) {
        keys.emplace_back(name, transaction);
      }
    }
    return keys;
  }

  bool is_written(const TransactionKey& key, std::vector<std::shared_ptr<PartWriter>>& held) const {
    const FilePath folder = root_ / key.first / key.second;
    for (const auto& known : writers_) {
      auto writer = known.lock();
      const bool open = writer != nullptr && writer->is_open_in(folder);
      held.push_back(std::move(writer));
      if (open) return true;
    }
    return false;
  }

  FilePath root_;
  std::string agent_;
  Wanted wanted_;  // set before the folder is shared
  std::shared_ptr<PartWriter::Shared> shared_;
  VerifiedFiles verified_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<PartWriter>> writers_;
  std::map<TransactionKey, double> unused_since_;
  std::set<TransactionKey> discarded_;
  std::deque<TransactionKey> discarded_in_turn_;
};

}  // namespace

DatasetFolder::Wanted wanted_by(PyRef face, WantedCall call) {
  return [face = std::move(face), call](const std::string& name, const std::string& transaction,
                                        uint32_t partition) {
    return call(face.get(), name, transaction, partition);
  };
}

arrow::Result<std::shared_ptr<DatasetFolder>> DatasetFolder::open(const std::string& path,
                                                                  std::string agent, int cpu) {
  auto shared = std::make_shared<PartWriter::Shared>();
  shared->cpu = cpu;
  std::error_code code;
  int error = shared->disk.make_folder(std::filesystem::absolute(path));
  const FilePath root = error == 0 ? std::filesystem::canonical(path, code) : FilePath();
  if (code) error = code.value();
  if (error != 0) return storage_fault(error, "can't make the dataset folder " + path);
  auto folder = std::make_shared<AgentFolder>(root, std::move(agent), std::move(shared));
  folder->remove_unsealed();
  return folder;
}

}  // namespace fabric
