// Writing one attempt of one writer aside, and sealing it.
//
// One job: `PartWriter`. Files of all partitions go to a folder that no reader looks at; `seal`
// makes them durable (fsync of files, folder, manifest) and renames the manifest into place, over
// that of an earlier try of the same attempt. A failure leaves nothing behind, and says which put
// and why, but no path.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "datasets/owner.hpp"
#include "store/disk.hpp"

namespace arrow::ipc {
class RecordBatchWriter;
}

namespace fabric {

class OpenOutputs;
class PartOutput;

// How many files of all puts below one folder are open.
using OpenCount = std::atomic<size_t>;

class PartWriter final : public OwnerWriter {
 public:
  // What writers below one folder share. It outlives them.
  struct Shared {
    Disk disk;
    std::mutex publishing;
    OpenCount n_open{0};
    int cpu = 0;
  };

  // Writes below `transaction` (a folder); `stem` names writer and attempt, `shown` the put.
  static arrow::Result<std::shared_ptr<PartWriter>> open(std::shared_ptr<Shared> shared,
                                                         FilePath transaction, std::string stem,
                                                         std::shared_ptr<arrow::Schema> schema,
                                                         std::string shown);

  PartWriter(std::shared_ptr<Shared> shared, FilePath transaction, std::string stem,
             std::shared_ptr<arrow::Schema> schema, std::string shown);
  ~PartWriter() override;

  arrow::Status write(uint32_t partition,
                      const std::shared_ptr<arrow::RecordBatch>& batch) override;
  arrow::Status write_checked(uint32_t partition, const std::shared_ptr<arrow::RecordBatch>& batch,
                              std::optional<uint32_t> crc32c) override;

  // Make the attempt durable and visible to readers of its transaction.
  arrow::Result<Receipt> seal() override;
  void abandon() override;

  // Its transaction is gone: from another thread, tell the writing one to give up.
  void refuse();

  // Whether this is still being written, below that folder.
  bool is_open_in(const FilePath& transaction) const;

 private:
  enum class State { OPEN, REFUSED, SEALED, ABANDONED };

  struct Part {  // no output: no rows so far
    int64_t rows = 0;
    std::shared_ptr<PartOutput> output;
    std::shared_ptr<arrow::ipc::RecordBatchWriter> stream;
  };

  arrow::Status check_open();
  arrow::Status given_up(const arrow::Status& status);
  arrow::Status append(uint32_t partition, Part& part, const arrow::RecordBatch& batch,
                       std::optional<uint32_t> crc32c);
  arrow::Status publish();
  arrow::Status put_in_place(const std::string& bytes);
  arrow::Status done(int error) const;

  std::shared_ptr<Shared> shared_;
  FilePath transaction_;
  std::string stem_;
  std::shared_ptr<arrow::Schema> schema_;
  std::string shown_, failure_;
  FilePath folder_;
  std::atomic<State> state_{State::OPEN};
  std::unique_ptr<OpenOutputs> open_;
  std::map<uint32_t, Part> parts_;
  Receipt receipt_;
  bool renamed_ = false;
};

}  // namespace fabric
