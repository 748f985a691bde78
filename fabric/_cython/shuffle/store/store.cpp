// Outputs of an agent by edge and task attempt, which of them go to the disk, and the rows that its
// own tasks read.
#include "store/store.hpp"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <condition_variable>

#include "store/budget.hpp"
#include "store/output.hpp"
#include "store/payload.hpp"
#include "store/size.hpp"
#include "wire/condition.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

std::string edge_name(const std::string& job, uint32_t edge) {
  return job + "/e" + std::to_string(edge);
}

arrow::Status check_offsets(const Output& output, int64_t n_rows,
                            const std::vector<int64_t>& offsets) {
  if (offsets.empty()) return arrow::Status::OK();
  const bool right = offsets.size() == static_cast<size_t>(output.n_partitions()) + 1 &&
                     offsets.front() >= 0 && offsets.back() <= n_rows &&
                     std::is_sorted(offsets.begin(), offsets.end());
  if (right) return arrow::Status::OK();
  return fault("InternalError", "offsets don't cut " + std::to_string(n_rows) + " rows into " +
                                    std::to_string(output.n_partitions()) + " partitions");
}

}  // namespace

// Who goes to the disk when the agent's budget is over: whoever added rows, or wants to read some,
// asks for room before anything else; the output with most in memory goes first, those of other
// tasks and jobs too, until all fits.
//
// Nobody can wait for ever: a spill waits for nothing but the disk. It takes no room itself (a
// message of at most 4 MiB at a time apart), holds no lock that a writer or reader needs to go on,
// and depends on no task. Who asks while all that could go is on its way waits for these spills to
// end; when nothing is left that could go, it is let in: then it has its own rows alone, which go
// next. So with any budget each writer is over it by one batch at most, each stream by one message.
class Spiller {
 public:
  explicit Spiller(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  void add(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    outputs_.push_back(output);
    if (outputs_.size() >= sweep_at_) {
      std::erase_if(outputs_, [](const auto& known) { return known.expired(); });
      sweep_at_ = 2 * outputs_.size() + 64;
    }
  }

  // Until `n_bytes` more fit, or nothing is left to spill; call it without locks. The error of a
  // full disk is that of whoever asked.
  arrow::Status make_room(int64_t n_bytes) {
    while (!budget_->has_room(n_bytes)) {
      std::vector<std::shared_ptr<Output>> seen;  // destroyed without the lock
      std::shared_ptr<Output> victim;
      {
        std::unique_lock lock(mutex_);
        victim = choose(seen);
        if (victim == nullptr) {
          if (busy_.empty()) return arrow::Status::OK();
          const uint64_t before = n_ended_;
          wait_until_true(changed_, lock, [&] { return n_ended_ != before; });
          continue;
        }
        busy_.insert(victim.get());
      }
      const arrow::Status spilled = victim->spill();
      std::lock_guard lock(mutex_);
      busy_.erase(victim.get());
      ++n_ended_;
      changed_.notify_all();
      ARROW_RETURN_NOT_OK(spilled);
    }
    return arrow::Status::OK();
  }

  // Keep a sealed output in memory, because somebody holds its rows anyway; false when some of them
  // are on the disk or on their way, or when half of the budget would be kept.
  bool keep(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    if (output->n_runs() > 0 || busy_.contains(output.get())) return false;
    const bool fresh = !kept_.contains(output.get());
    const int64_t n_bytes = kept_bytes_ + (fresh ? output->memory_bytes() : 0);
    if (n_bytes > budget_->bytes_max() / 2) return false;
    kept_.insert(output.get());
    kept_bytes_ = n_bytes;
    return true;
  }

  void let_go(const std::shared_ptr<Output>& output) {
    std::lock_guard lock(mutex_);
    kept_.erase(kept_.find(output.get()));
    if (!kept_.contains(output.get())) kept_bytes_ -= output->memory_bytes();
  }

 private:
  // Under the lock.
  std::shared_ptr<Output> choose(std::vector<std::shared_ptr<Output>>& seen) {
    std::shared_ptr<Output> found;
    for (const auto& known : outputs_) {
      const auto output = seen.emplace_back(known.lock());
      if (output == nullptr || output->closed() || output->memory_bytes() == 0) continue;
      if (kept_.contains(output.get()) || busy_.contains(output.get())) continue;
      if (found == nullptr || output->memory_bytes() > found->memory_bytes()) found = output;
    }
    return found;
  }

  const std::shared_ptr<Budget> budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Output>> outputs_;
  size_t sweep_at_ = 64;
  uint64_t n_ended_ = 0;  // spills
  std::set<const Output*> busy_;
  std::multiset<const Output*> kept_;
  int64_t kept_bytes_ = 0;
};

LocalRows::LocalRows(std::shared_ptr<Output> output, int32_t partition,
                     std::shared_ptr<Spiller> spiller, int cpu)
    : output_(std::move(output)), partition_(partition), spiller_(std::move(spiller)), cpu_(cpu) {}

LocalRows::~LocalRows() { let_go(); }

Totals LocalRows::totals() const { return output_->totals(partition_); }

bool LocalRows::spilled() const { return output_->n_runs() > 0; }

arrow::Status LocalRows::append(std::shared_ptr<arrow::RecordBatch> batch) {
  ARROW_ASSIGN_OR_RAISE(batch, owned(std::move(batch)));
  if (batch->num_rows() == 0) return arrow::Status::OK();
  const int64_t n_bytes = bytes_of_batch(*batch);
  std::vector<int64_t> offsets{0, batch->num_rows()};
  output_->append(std::move(batch), std::move(offsets), n_bytes);
  return spiller_ == nullptr ? arrow::Status::OK() : spiller_->make_room(0);
}

arrow::Status LocalRows::seal() { return output_->seal(); }

std::unique_ptr<MessageStream> LocalRows::batches() const {
  PartitionTicket ticket;
  ticket.partition = static_cast<uint32_t>(partition_);
  std::vector<PartitionPart> parts{{{0, 0}, output_}};
  return partition_stream(output_->schema(), ticket, std::move(parts), Reader::TASK, cpu_);
}

bool LocalRows::keep() {
  if (spiller_ != nullptr && !kept_) kept_ = spiller_->keep(output_);
  return spiller_ == nullptr || kept_;
}

void LocalRows::let_go() {
  if (std::exchange(kept_, false)) spiller_->let_go(output_);
}

Store::Store(std::string agent_id, std::shared_ptr<Budget> budget,
             const std::vector<std::string>& folders, int64_t keep_free_bytes, int cpu)
    : agent_id_(std::move(agent_id)),
      options_(std::make_unique<const OutputOptions>(std::move(budget), folders, keep_free_bytes,
                                                     cpu)) {
  if (options_->places == nullptr) return;
  spiller_ = std::make_shared<Spiller>(options_->budget);
  options_->budget->set_relief([spiller = std::weak_ptr(spiller_)](int64_t n_bytes) {
    if (const auto known = spiller.lock()) (void)known->make_room(n_bytes);
  });
}

Store::~Store() = default;

arrow::Status Store::begin(const std::string& job, uint32_t edge,
                           const std::shared_ptr<arrow::Schema>& schema, int32_t n_partitions,
                           ProducerAttempt producer, const std::string& compression) {
  ARROW_ASSIGN_OR_RAISE(auto codec, codec_named(compression));
  auto fresh = std::make_shared<Output>(OutputName{agent_id_, job, edge, producer}, schema,
                                        n_partitions, std::move(codec), *options_);
  if (spiller_ != nullptr) spiller_->add(fresh);
  std::shared_ptr<Output> old;  // destroyed after the lock
  std::lock_guard lock(mutex_);
  Edge& known = edges_.try_emplace({job, edge}, Edge{schema, n_partitions, {}}).first->second;
  if (known.n_partitions != n_partitions || !known.schema->Equals(*schema, false)) {
    return fault("InternalError", "edge " + edge_name(job, edge) +
                                      " was opened twice with different shapes");
  }
  old = std::exchange(known.outputs[producer], std::move(fresh));
  if (old != nullptr) old->close();
  return arrow::Status::OK();
}

arrow::Status Store::append(const std::string& job, uint32_t edge, ProducerAttempt producer,
                            std::shared_ptr<arrow::RecordBatch> batch,
                            std::vector<int64_t> offsets) {
  ARROW_ASSIGN_OR_RAISE(batch, owned(std::move(batch)));
  const int64_t n_bytes = bytes_of_batch(*batch);
  {
    std::lock_guard lock(mutex_);
    ARROW_ASSIGN_OR_RAISE(const auto output, open_output(job, edge, producer));
    ARROW_RETURN_NOT_OK(check_offsets(*output, batch->num_rows(), offsets));
    if (batch->num_rows() > 0) output->append(std::move(batch), std::move(offsets), n_bytes);
  }
  return make_room();
}

arrow::Result<Totals> Store::seal(const std::string& job, uint32_t edge, ProducerAttempt producer) {
  std::shared_ptr<Output> output;
  {
    std::lock_guard lock(mutex_);
    ARROW_ASSIGN_OR_RAISE(output, open_output(job, edge, producer));
  }
  ARROW_RETURN_NOT_OK(output->seal());
  return output->totals();
}

void Store::discard(const std::string& job, uint32_t edge, ProducerAttempt producer) {
  std::shared_ptr<Output> dropped;
  std::lock_guard lock(mutex_);
  const auto known = edges_.find({job, edge});
  if (known == edges_.end()) return;
  auto& outputs = known->second.outputs;
  if (const auto found = outputs.find(producer); found != outputs.end()) {
    dropped = std::move(found->second);
    dropped->close();
    outputs.erase(found);
  }
  if (outputs.empty()) edges_.erase(known);
}

int64_t Store::release(const std::string& job) {
  std::vector<std::shared_ptr<Output>> dropped;
  std::lock_guard lock(mutex_);
  int64_t n_bytes = 0;
  for (auto at = edges_.lower_bound({job, 0}); at != edges_.end() && at->first.first == job;) {
    for (auto& [_, output] : at->second.outputs) {
      n_bytes += output->close();
      dropped.push_back(std::move(output));
    }
    at = edges_.erase(at);
  }
  return n_bytes;
}

int64_t Store::stored_bytes() const { return sum_of(&Output::held_bytes); }

int64_t Store::spilled_bytes() const { return sum_of(&Output::spilled_bytes); }

void Store::fail_disk(int error) const { options_->fail_disk(error); }

std::set<std::string> Store::jobs() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> found;
  for (const auto& [key, _] : edges_) found.insert(key.first);
  return found;
}

arrow::Result<std::shared_ptr<arrow::Schema>> Store::edge_schema(const std::string& job,
                                                                 uint32_t edge) const {
  std::lock_guard lock(mutex_);
  if (const auto known = edges_.find({job, edge}); known != edges_.end()) {
    return known->second.schema;
  }
  return fault("NotFoundError", "edge " + std::to_string(edge) +
                                    " has no partitions on this agent; was the job released?",
               {.job = job, .agent = agent_id_});
}

arrow::Result<std::unique_ptr<MessageStream>> Store::open(const PartitionTicket& ticket,
                                                          bool checksums) const {
  ARROW_RETURN_NOT_OK(edge_schema(ticket.job, ticket.edge).status());
  return open_for(ticket, checksums ? Reader::AGENT : Reader::PROCESS);
}

arrow::Result<std::unique_ptr<MessageStream>> Store::batches(const PartitionTicket& ticket) const {
  return open_for(ticket, Reader::TASK);
}

arrow::Result<std::vector<std::shared_ptr<LocalRows>>> Store::local(
    const PartitionTicket& ticket) const {
  std::vector<std::shared_ptr<LocalRows>> found;
  std::shared_ptr<arrow::Schema> schema;
  std::lock_guard lock(mutex_);
  ARROW_ASSIGN_OR_RAISE(auto outputs, outputs_of(ticket, schema));
  for (auto& output : outputs) {
    found.push_back(std::make_shared<LocalRows>(
        std::move(output), static_cast<int32_t>(ticket.partition), spiller_, options_->cpu));
  }
  return found;
}

std::shared_ptr<LocalRows> Store::put_here(const std::string& job, uint32_t edge,
                                           ProducerAttempt producer,
                                           const std::shared_ptr<arrow::Schema>& schema) const {
  auto output = std::make_shared<Output>(OutputName{agent_id_, job, edge, producer}, schema, 1,
                                         nullptr, *options_);
  if (spiller_ != nullptr) spiller_->add(output);
  return std::make_shared<LocalRows>(std::move(output), 0, spiller_, options_->cpu);
}

arrow::Result<std::unique_ptr<MessageStream>> Store::open_for(const PartitionTicket& ticket,
                                                              Reader reader) const {
  std::vector<PartitionPart> parts;
  std::shared_ptr<arrow::Schema> schema;
  std::lock_guard lock(mutex_);
  ARROW_ASSIGN_OR_RAISE(auto outputs, outputs_of(ticket, schema));
  for (size_t i = 0; i < outputs.size(); ++i) {
    parts.push_back({ticket.producers[i], std::move(outputs[i])});
  }
  return partition_stream(std::move(schema), ticket, std::move(parts), reader, options_->cpu);
}

// The sealed outputs of all producers that a ticket names. Under the lock.
arrow::Result<std::vector<std::shared_ptr<Output>>> Store::outputs_of(
    const PartitionTicket& ticket, std::shared_ptr<arrow::Schema>& schema) const {
  std::vector<std::shared_ptr<Output>> outputs;
  if (const auto known = edges_.find({ticket.job, ticket.edge}); known != edges_.end()) {
    schema = known->second.schema;
    ARROW_RETURN_NOT_OK(check_partition(ticket, known->second.n_partitions));
  }
  for (const ProducerAttempt& producer : ticket.producers) {
    auto output = find_output(ticket.job, ticket.edge, producer);
    if (output == nullptr || !output->sealed()) {
      return lost(ticket.job, ticket.edge, producer, ticket.partition);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// Null when it is not here. Under the lock.
std::shared_ptr<Output> Store::find_output(const std::string& job, uint32_t edge,
                                           ProducerAttempt producer) const {
  const auto known = edges_.find({job, edge});
  if (known == edges_.end()) return nullptr;
  const auto found = known->second.outputs.find(producer);
  return found == known->second.outputs.end() ? nullptr : found->second;
}

// Under the lock.
arrow::Result<std::shared_ptr<Output>> Store::open_output(const std::string& job, uint32_t edge,
                                                          ProducerAttempt producer) const {
  auto output = find_output(job, edge, producer);
  // Dropped under a running task: its job was released.
  if (output == nullptr) return lost(job, edge, producer, 0);
  if (output->sealed()) {
    return fault("InternalError", "edge " + edge_name(job, edge) + " from task " +
                                      std::to_string(producer.task) + "#" +
                                      std::to_string(producer.attempt) + " is sealed already");
  }
  return output;
}

arrow::Status Store::check_partition(const PartitionTicket& ticket, int32_t n_partitions) const {
  if (ticket.partition < static_cast<uint32_t>(n_partitions)) return arrow::Status::OK();
  return fault("NotFoundError", "edge " + std::to_string(ticket.edge) + " has partitions 0 to " +
                                    std::to_string(n_partitions - 1) + ", not " +
                                    std::to_string(ticket.partition),
               {.job = ticket.job, .agent = agent_id_});
}

arrow::Status Store::lost(const std::string& job, uint32_t edge, ProducerAttempt producer,
                          uint32_t partition) const {
  return fault("PartitionLostError",
               "partition " + std::to_string(partition) + " of edge " + std::to_string(edge) +
                   ", written by task " + std::to_string(producer.task) + " attempt " +
                   std::to_string(producer.attempt) +
                   ", is not on this agent; the job was released or the agent restarted, so run "
                   "it again",
               {.job = job, .agent = agent_id_});
}

int64_t Store::sum_of(int64_t (Output::*bytes)() const) const {
  std::lock_guard lock(mutex_);
  int64_t n_bytes = 0;
  for (const auto& [_, edge] : edges_) {
    for (const auto& [__, output] : edge.outputs) n_bytes += (output.get()->*bytes)();
  }
  return n_bytes;
}

// Call it without locks.
arrow::Status Store::make_room() const {
  return spiller_ == nullptr ? arrow::Status::OK() : spiller_->make_room(0);
}

}  // namespace fabric
