// What a client may put straight to an owner of partitions, and the three kinds of put.
#include "datasets/put.hpp"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <exception>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/folder.hpp"
#include "datasets/owner.hpp"
#include "datasets/spread.hpp"
#include "flight/strangers.hpp"
#include "flight/directory.hpp"
#include "flight/handlers.hpp"
#include "flight/paths.hpp"
#include "flight/text.hpp"
#include "memory.hpp"
#include "partition_batch.hpp"
#include "store/message.hpp"
#include "wire/check.hpp"
#include "wire/batches.hpp"
#include "wire/fault.hpp"
#include "wire/header.hpp"
#include "wire/ticket.hpp"

namespace fabric {
namespace {

constexpr const char* PLAIN_WRITER = "put";

// The rows of one put, checked before anything is done with them. Agents split rows themselves and
// are believed; a client of scope `write` may split them too (the Spark connector does), but only
// into partitions that are this agent's, and each row where the hash of its keys puts it.
class OwnedRows {
 public:
  static arrow::Result<std::unique_ptr<OwnedRows>> open(const DatasetPtr& location,
                                                        const std::string& agent,
                                                        const arrow::Schema& given, int cpu) {
    ARROW_RETURN_NOT_OK(check_foreign_schema(given));
    ARROW_RETURN_NOT_OK(check_owners(*location));
    ARROW_ASSIGN_OR_RAISE(auto schema, read_schema(location->schema));
    ARROW_RETURN_NOT_OK(check_columns(given, *schema, location->name));
    ARROW_ASSIGN_OR_RAISE(auto keys, key_indices(*schema, location->keys));
    return std::make_unique<OwnedRows>(location, agent, std::move(schema), std::move(keys), cpu);
  }

  OwnedRows(DatasetPtr location, std::string agent, std::shared_ptr<arrow::Schema> schema,
            std::vector<int32_t> keys, int cpu)
      : location_(std::move(location)), agent_(std::move(agent)), schema_(std::move(schema)),
        keys_(std::move(keys)), cpu_(cpu), seen_(location_->n_partitions) {}

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  // Whether a batch is safe to look at.
  arrow::Status check(const arrow::RecordBatch& batch) const {
    return check_foreign_batch(batch, *schema_);
  }

  // Whether the runs of `batch` lie where they belong; they cover it.
  arrow::Status place(const arrow::RecordBatch& batch, const std::vector<PartitionRows>& runs) {
    for (const PartitionRows& run : runs) {
      if (run.partition >= seen_.size() || !location_->owns(agent_, run.partition)) {
        return fault("DataError", "partition " + std::to_string(run.partition) + " of dataset " +
                                      quoted(location_->name) + " does not belong to agent " +
                                      agent_,
                     {.agent = agent_});
      }
      seen_[run.partition] = true;
    }
    if (keys_.empty() || batch.num_rows() == 0) return arrow::Status::OK();
    uint32_t found = 0;
    const auto n_partitions = static_cast<int32_t>(location_->n_partitions);
    ARROW_ASSIGN_OR_RAISE(const int64_t row,
                          misplaced_row(batch, keys_, n_partitions, runs, cpu_, found));
    return row < 0 ? arrow::Status::OK() : misplaced(row, runs, found);
  }

  // Every partition of this agent was named, if only to say that it has no rows.
  arrow::Status finish() const {
    for (size_t partition = 0; partition < seen_.size(); ++partition) {
      if (seen_[partition] || !location_->owns(agent_, partition)) continue;
      return fault("DataError", "the put names no rows for partition " +
                                    std::to_string(partition) + " of dataset " +
                                    quoted(location_->name) +
                                    "; send an empty batch for a partition without rows",
                   {.agent = agent_});
    }
    return arrow::Status::OK();
  }

 private:
  arrow::Status misplaced(int64_t row, const std::vector<PartitionRows>& runs,
                          uint32_t found) const {
    size_t run = 0;
    for (auto end = static_cast<int64_t>(runs[0].rows); end <= row;) {
      end += static_cast<int64_t>(runs[++run].rows);
    }
    std::string keys;
    for (const std::string& key : location_->keys) keys += (keys.empty() ? "" : ", ") + key;
    return fault("DataError", "a row for partition " + std::to_string(runs[run].partition) +
                                  " of dataset " + quoted(location_->name) +
                                  " belongs to partition " + std::to_string(found) +
                                  " by its keys " + keys);
  }

  DatasetPtr location_;
  std::string agent_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<int32_t> keys_;
  int cpu_;
  std::vector<bool> seen_;
};

class Puts {
 public:
  explicit Puts(PutBackend backend) : backend_(std::move(backend)) {
    backend_.allocator->retain();
  }
  ~Puts() { backend_.allocator->drop(); }
  Puts(const Puts&) = delete;
  Puts& operator=(const Puts&) = delete;

  arrow::Status take(const PutPath& put, bool agent, fl::FlightMessageReader& reader,
                     fl::FlightMetadataWriter& writer, const Cancelled& cancelled) const {
    const Call call{agent, reader, cancelled};
    const arrow::Result<std::string> answer = put.to_owner              ? owner(put, call)
                                              : put.transaction.empty() ? plain(put.name, call)
                                                                        : attempt(put, call);
    if (!answer.ok()) return of_put(answer.status(), put.name, backend_.agent_id);
    return writer.WriteMetadata(*arrow::Buffer::FromString(*answer));
  }

 private:
  struct Call {
    bool agent;
    fl::FlightMessageReader& reader;
    const Cancelled& cancelled;

    arrow::Result<std::shared_ptr<arrow::Schema>> schema() const {
      auto found = reader.GetSchema();
      return found.ok() ? found : unreadable(found.status());
    }
    // The next message; false at the end.
    arrow::Result<bool> next(fl::FlightStreamChunk& out) const {
      auto found = reader.Next();
      if (!found.ok()) return unreadable(found.status());
      out = std::move(*found);
      if (out.data == nullptr && out.app_metadata == nullptr) return false;
      ARROW_RETURN_NOT_OK(check_whole());
      return true;
    }
    // A killed client's stream ends like a whole one; only the call's state tells them apart.
    arrow::Status check_whole() const {
      if (!cancelled()) return arrow::Status::OK();
      return fault("PeerLostError", "the stream broke off: the client went away before its end, or "
                                    "this agent is shutting down; ask another one");
    }
    static arrow::Status unreadable(const arrow::Status& status) {
      if (!detail_of(status).empty()) return status;
      return fault("DataError",
                   "the stream can't be read: " + first_line(status.message(), 200));
    }
  };

  // Write what an agent sends, or a client that splits its rows itself, until its END.
  arrow::Result<std::string> owner(const PutPath& put, const Call& call) const {
    ARROW_RETURN_NOT_OK(check_not_committed(put));
    ARROW_ASSIGN_OR_RAISE(auto schema, call.schema());
    std::unique_ptr<OwnedRows> client;
    if (!call.agent) {
      ARROW_ASSIGN_OR_RAISE(const DatasetPtr location, transaction(put));
      ARROW_ASSIGN_OR_RAISE(
          client, OwnedRows::open(location, backend_.agent_id, *schema, backend_.folder->cpu()));
      schema = client->schema();
    }
    ARROW_ASSIGN_OR_RAISE(const auto writer,
                          backend_.folder->open_write(put.name, put.transaction, put.writer,
                                                      put.attempt, schema));
    const arrow::Status status = write_all(put, call, client.get(), *writer);
    if (!status.ok()) writer->abandon();
    ARROW_RETURN_NOT_OK(status);
    ARROW_ASSIGN_OR_RAISE(const Receipt receipt, writer->seal());
    ARROW_RETURN_NOT_OK(reach("agent.put-sealed"));
    return "{" + receipt_text(receipt) + "}";
  }

  arrow::Status write_all(const PutPath& put, const Call& call, OwnedRows* client,
                          OwnerWriter& writer) const {
    StreamCheck check(put.transaction, 0, {{0, put.attempt}}, std::nullopt, {}, true,
                      backend_.folder->cpu());
    fl::FlightStreamChunk chunk;
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const bool more, call.next(chunk));
      if (!more) break;
      const auto header =
          decode_header(chunk.app_metadata == nullptr ? std::string_view()
                                                      : std::string_view(*chunk.app_metadata));
      if (!header.ok()) return check.lost(words(header.status()), "?");
      if (client != nullptr && chunk.data != nullptr) {
        ARROW_RETURN_NOT_OK(client->check(*chunk.data));
      }
      ARROW_ASSIGN_OR_RAISE(const bool fresh, check.accept(*header, chunk.data.get()));
      if (!fresh || header->event != Event::ROWS) continue;
      if (client != nullptr) ARROW_RETURN_NOT_OK(client->place(*chunk.data, header->partitions));
      ARROW_RETURN_NOT_OK(write_runs(*header, chunk.data, writer));
      ARROW_RETURN_NOT_OK(reach("agent.put-batch"));
    }
    ARROW_RETURN_NOT_OK(check.finish());
    if (client != nullptr) ARROW_RETURN_NOT_OK(client->finish());
    return call.check_whole();
  }

  arrow::Status reach(const char* failpoint) const {
    return backend_.calls.reach == nullptr ? arrow::Status::OK() : backend_.calls.reach(failpoint);
  }

  static arrow::Status write_runs(const EdgeHeader& header,
                                  const std::shared_ptr<arrow::RecordBatch>& batch,
                                  OwnerWriter& writer) {
    if (header.partitions.size() == 1) {
      return writer.write_checked(header.partitions[0].partition, batch, header.crc32c);
    }
    int64_t begin = 0;
    for (const PartitionRows& run : header.partitions) {
      const auto n_rows = static_cast<int64_t>(run.rows);
      ARROW_RETURN_NOT_OK(writer.write(run.partition, batch->Slice(begin, n_rows)));
      begin += n_rows;
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::string> attempt(const PutPath& put, const Call& call) const {
    ARROW_ASSIGN_OR_RAISE(const DatasetPtr location, transaction(put));
    ARROW_ASSIGN_OR_RAISE(const Receipt receipt, spread(put, location, call));
    return "{" + put_text(put, receipt) + "}";
  }

  // Begin, put, commit; what fails on the way is aborted.
  arrow::Result<std::string> plain(const std::string& name, const Call& call) const {
    ARROW_ASSIGN_OR_RAISE(const auto schema, call.schema());
    ARROW_RETURN_NOT_OK(check_foreign_schema(*schema));
    ARROW_ASSIGN_OR_RAISE(const auto bytes, arrow::ipc::SerializeSchema(*schema));
    PutPath put{name, "", PLAIN_WRITER, 0, false};
    std::string location;
    const PutCalls& calls = backend_.calls;
    ARROW_RETURN_NOT_OK(
        calls.begin(calls.face.get(), name, bytes->ToString(), put.transaction, location));
    const arrow::Result<Receipt> receipt = spread_to(put, location, call);
    arrow::Status status = receipt.status();
    uint64_t version = 0;
    if (status.ok()) status = calls.commit(calls.face.get(), put, receipt->rows, version);
    // A commit of which only the answer was lost can't be undone, and its files stay.
    if (!status.ok()) calls.undo(calls.face.get(), put.transaction, location);
    ARROW_RETURN_NOT_OK(status);
    return "{" + put_text(put, *receipt) + ", \"version\": " + std::to_string(version) + "}";
  }

  arrow::Result<Receipt> spread_to(const PutPath& put, const std::string& location,
                                   const Call& call) const {
    ARROW_ASSIGN_OR_RAISE(const DatasetPtr decoded, decode_location(location));
    try {
      return spread(put, decoded, call);
    } catch (const std::exception& error) {
      return arrow::Status::UnknownError("a put ended: ", error.what());
    }
  }

  // Check, split and send on; returns once all owners have sealed.
  arrow::Result<Receipt> spread(const PutPath& put, const DatasetPtr& location,
                                const Call& call) const {
    const std::map<std::string, std::string> addresses = backend_.table->addresses();
    ARROW_RETURN_NOT_OK(check_addresses(*location, addresses));
    ARROW_ASSIGN_OR_RAISE(const auto given, call.schema());
    ARROW_RETURN_NOT_OK(check_foreign_schema(*given));
    ARROW_ASSIGN_OR_RAISE(const auto schema, read_schema(location->schema));
    ARROW_RETURN_NOT_OK(check_columns(*given, *schema, put.name));
    const auto open = [&](const std::string& owner) {
      return open_owner(put, owner, addresses.at(owner), schema);
    };
    ARROW_ASSIGN_OR_RAISE(
        const auto spread,
        Spread::begin(location, open, *backend_.allocator, backend_.folder->cpu()));
    ARROW_ASSIGN_OR_RAISE(const uint32_t crc32c_sum, send_all(*spread, call));
    ARROW_RETURN_NOT_OK(call.check_whole());
    ARROW_ASSIGN_OR_RAISE(Receipt receipt, spread->seal());
    ARROW_RETURN_NOT_OK(call.check_whole());
    receipt.crc32c_sum = crc32c_sum;
    return receipt;
  }

  // The sum of the checksums of the batches as they came.
  arrow::Result<uint32_t> send_all(Spread& spread, const Call& call) const {
    uint32_t crc32c_sum = 0;
    fl::FlightStreamChunk chunk;
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const bool more, call.next(chunk));
      if (!more) return crc32c_sum;
      if (chunk.data == nullptr || chunk.data->num_rows() == 0) continue;
      if (!call.agent) ARROW_RETURN_NOT_OK(check_foreign_batch(*chunk.data, *spread.schema()));
      ARROW_ASSIGN_OR_RAISE(const uint32_t crc, crc32c_of(*chunk.data, backend_.folder->cpu()));
      crc32c_sum += crc;
      ARROW_RETURN_NOT_OK(spread.write(chunk.data));
    }
  }

  // Our own partitions are written here; others by way of the transport.
  arrow::Result<std::shared_ptr<OwnerWriter>> open_owner(
      const PutPath& put, const std::string& owner, const std::string& address,
      const std::shared_ptr<arrow::Schema>& schema) const {
    if (owner == backend_.agent_id) {
      return backend_.folder->open_write(put.name, put.transaction, put.writer, put.attempt,
                                         schema);
    }
    std::shared_ptr<OwnerWriter> opened;
    ARROW_RETURN_NOT_OK(backend_.calls.open(backend_.calls.face.get(), put, address, schema,
                                            opened));
    return opened;
  }

  arrow::Status check_not_committed(const PutPath& put) const {
    const DatasetPtr known = backend_.table->dataset(put.name);
    if (known == nullptr) return arrow::Status::OK();
    for (const DatasetPart& part : known->parts) {
      if (part.transaction != put.transaction) continue;
      return fault("ConfigError",
                   "transaction " + put.transaction + " is committed; begin another");
    }
    return arrow::Status::OK();
  }

  arrow::Result<DatasetPtr> transaction(const PutPath& put) const {
    std::string location;
    const PutCalls& calls = backend_.calls;
    ARROW_RETURN_NOT_OK(calls.transaction(calls.face.get(), put.name, put.transaction, location));
    return decode_location(location);
  }

  static std::string words(const arrow::Status& status) {
    const std::string text = status.message();
    const size_t colon = text.find(": ");
    return colon == text.npos ? text : text.substr(colon + 2);
  }

  static std::string receipt_text(const Receipt& receipt) {
    return "\"rows\": " + std::to_string(receipt.rows) +
           ", \"crc32c_sum\": " + std::to_string(receipt.crc32c_sum);
  }

  static std::string put_text(const PutPath& put, const Receipt& receipt) {
    return "\"transaction\": " + json_text(put.transaction) +
           ", \"writer\": " + json_text(put.writer) +
           ", \"attempt\": " + std::to_string(put.attempt) + ", " + receipt_text(receipt);
  }

  PutBackend backend_;
};

}  // namespace

void set_datasets(Handlers& handlers, PutBackend backend) {
  const auto folder = backend.folder;
  handlers.get = [folder, others = handlers.get](
                     const Ticket& ticket,
                     bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    const auto* dataset = std::get_if<DatasetTicket>(&ticket);
    if (dataset == nullptr) return others(ticket, agent);
    return folder->read(*dataset, nullptr, agent);
  };
  handlers.has = [folder](const DatasetTicket& ticket) {
    const auto found = folder->has(ticket);
    return found.ok() ? *found : true;  // damaged: reading it says what is wrong
  };
  handlers.put = [puts = std::make_shared<Puts>(std::move(backend))](
                     const PutPath& put, bool agent, fl::FlightMessageReader& reader,
                     fl::FlightMetadataWriter& writer, const Cancelled& cancelled) {
    try {
      return puts->take(put, agent, reader, writer, cancelled);
    } catch (const std::exception& error) {
      return arrow::Status::UnknownError("a put ended: ", error.what());
    }
  };
}

}  // namespace fabric
