// Owners that Python writes to, and owners on other agents: wait for room, and read what they
// acknowledge.
#include "datasets/owner.hpp"

#include <arrow/record_batch.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "pump/put.hpp"
#include "wire/fault.hpp"
#include "wire/python.hpp"

namespace fabric {
namespace {

class PythonOwner final : public OwnerWriter {
 public:
  PythonOwner(PyRef object, const OwnerCalls& calls) : object_(std::move(object)), calls_(calls) {}

  arrow::Status write(uint32_t partition,
                      const std::shared_ptr<arrow::RecordBatch>& batch) override {
    return calls_.write(object_.get(), partition, batch);
  }
  arrow::Result<Receipt> seal() override {
    Receipt receipt;
    ARROW_RETURN_NOT_OK(calls_.seal(object_.get(), receipt));
    return receipt;
  }
  void abandon() override { calls_.abandon(object_.get()); }

 private:
  PyRef object_;
  OwnerCalls calls_;
};

// A number of a flat JSON object as our own agents write it; false when it is not there.
template <class Number>
bool json_number(std::string_view json, std::string_view name, Number& out) {
  const std::string key = "\"" + std::string(name) + "\": ";
  const size_t at = json.find(key);
  if (at == json.npos) return false;
  const std::string_view rest = json.substr(at + key.size());
  return std::from_chars(rest.data(), rest.data() + rest.size(), out).ec == std::errc();
}

class RemoteOwner final : public OwnerWriter {
 public:
  // `face` is what ends the put when nobody has it any more.
  RemoteOwner(std::shared_ptr<PutCall> put, std::string address, PyRef face)
      : put_(std::move(put)), address_(std::move(address)), face_(std::move(face)) {}

  arrow::Status write(uint32_t partition,
                      const std::shared_ptr<arrow::RecordBatch>& batch) override {
    ARROW_RETURN_NOT_OK(until_done([&](Patience& patience, Batches& spent) {
      return put_->write(batch, partition, patience, spent);
    }));
    rows_ += static_cast<uint64_t>(batch->num_rows());
    return arrow::Status::OK();
  }

  arrow::Result<Receipt> seal() override {
    std::string answer;
    ARROW_RETURN_NOT_OK(until_done([&](Patience& patience, Batches& spent) {
      return put_->seal(patience, spent, answer);
    }));
    Receipt receipt;
    if (!json_number(answer, "rows", receipt.rows) ||
        !json_number(answer, "crc32c_sum", receipt.crc32c_sum)) {
      return lost("the owner ended a put without acknowledging it");
    }
    if (receipt.rows == rows_) return receipt;
    return lost("the owner sealed " + std::to_string(receipt.rows) + " of " +
                std::to_string(rows_) + " rows");
  }

  void abandon() override {
    Batches spent;
    put_->close();
    put_->drain(spent);
  }

 private:
  // Batches that were sent are destroyed in between, by this thread.
  template <class Ask>
  arrow::Status until_done(Ask ask) {
    Patience patience;
    while (true) {
      Batches spent;
      const arrow::Result<bool> done = ask(patience, spent);
      if (!done.ok()) abandon();
      ARROW_RETURN_NOT_OK(done.status());
      if (*done) return arrow::Status::OK();
    }
  }

  arrow::Status lost(const std::string& what) {
    abandon();
    return fault("PartitionLostError", what, {.agent = address_});
  }

  std::shared_ptr<PutCall> put_;
  std::string address_;
  PyRef face_;
  uint64_t rows_ = 0;
};

}  // namespace

std::shared_ptr<OwnerWriter> python_owner(PyRef object, const OwnerCalls& calls) {
  return std::make_shared<PythonOwner>(std::move(object), calls);
}

std::shared_ptr<OwnerWriter> remote_owner(std::shared_ptr<PutCall> put, std::string address,
                                          PyRef face) {
  return std::make_shared<RemoteOwner>(std::move(put), std::move(address), std::move(face));
}

OpenOwner opened_by(PyRef object, OpenCall call) {
  return [object, call](const std::string& owner) -> arrow::Result<std::shared_ptr<OwnerWriter>> {
    std::shared_ptr<OwnerWriter> opened;
    ARROW_RETURN_NOT_OK(call(object.get(), owner, opened));
    return opened;
  };
}

}  // namespace fabric
