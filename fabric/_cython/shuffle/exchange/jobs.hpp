// The pipelined edges of every job on this agent, for streams that ask by the job's name.
//
// One job: names to pipes, for exchanges (DoExchange, `serve.cpp`) and taps (DoGet). A consumer's
// agent may ask before this one was told of the job, so asking waits, and so does a tap.
#pragma once
#include <arrow/status.h>
#include <arrow/type_fwd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace fabric {

class BatchPipes;
class Directory;
struct Handlers;
template <class Payload>
class Tap;
using BatchTap = Tap<std::shared_ptr<arrow::RecordBatch>>;

// The attempt of every producer task of a job's pipelined edges.
class Attempts {
 public:
  void set(uint32_t edge, uint32_t producer, uint32_t attempt);
  uint32_t of(uint32_t edge, uint32_t producer) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> attempts_;
};

// One job's producers on this agent; no pipes: it is not known.
struct Producing {
  std::shared_ptr<BatchPipes> pipes;
  std::shared_ptr<Attempts> attempts;
};

// A tap and the partition that it wants.
struct WantedTap {
  std::shared_ptr<BatchTap> tap;
  uint32_t edge = 0, n_partitions = 0, partition = 0;

  arrow::Status attach(const std::shared_ptr<BatchPipes>& pipes) const;
};

class JobPipes {
 public:
  void add(const std::string& job, std::shared_ptr<BatchPipes> pipes);

  // From now on the tap sees the rows of its partition, also when the job's first task is yet to
  // come.
  arrow::Status tap(const std::string& job, const WantedTap& wanted);
  void untap(const std::shared_ptr<BatchTap>& tap);

  // A task attempt begins to write to `edge`.
  void begin(const std::string& job, uint32_t edge, uint32_t producer, uint32_t attempt);

  void remove(const std::string& job);

  // Until the job is known or `deadline`.
  Producing wait_for(const std::string& job,
                     std::chrono::steady_clock::time_point deadline) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, Producing> jobs_;
  std::multimap<std::string, WantedTap> taps_;  // of jobs that are not known yet
};

// The exchanges behind a server's DoExchange: any job of `jobs`, once it is known; one that is not
// within `idle_s` is refused.
void bind_exchange(Handlers& handlers, std::shared_ptr<JobPipes> jobs, double idle_s, int cpu);

// Tickets of taps to the jobs; others go where they went before.
void bind_taps(Handlers& handlers, std::shared_ptr<JobPipes> jobs,
               std::shared_ptr<const Directory> table, double idle_s);

}  // namespace fabric
