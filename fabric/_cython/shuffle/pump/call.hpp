// A Flight call with a thread of its own, which never needs the GIL.
//
// One job: begin, stop, end. Flight has no time-out per message and opening a stream can hang
// too, so a thread opens, reads or writes, and those who wait for it wait with a bound. `stop`
// cancels the stream wherever it is; only an attempt to connect can outlast it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>

#include "connection.hpp"
#include "ipc_stream.hpp"

namespace fabric {

using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr double CALL_S_MAX = 24 * 3600.0;
constexpr std::chrono::milliseconds MOMENT(200);  // after which Python looks at its signals

inline arrow::flight::FlightCallOptions call_options(const Headers& headers, double timeout_s) {
  arrow::flight::FlightCallOptions options;
  options.headers = headers;
  options.timeout = arrow::flight::TimeoutDuration{timeout_s};
  return options;
}

// The Flight code of a status; nothing when it has none.
inline std::optional<arrow::flight::FlightStatusCode> code_of(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  if (detail == nullptr) return std::nullopt;
  return detail->code();
}

// Whether the connection failed, rather than that the server refused in our own words.
inline bool is_broken(const arrow::Status& status) {
  using Code = arrow::flight::FlightStatusCode;
  const auto code = code_of(status);
  return code && (*code == Code::Unavailable || *code == Code::Cancelled) &&
         detail_of(status).empty();
}

// What gRPC said, without what Flight and gRPC put around it.
inline std::string words_of(const arrow::Status& status) {
  std::string words = status.message();
  const std::string lead = "with message: ";
  if (const auto at = words.find(lead); at != std::string::npos) words.erase(0, at + lead.size());
  for (const char* clutter : {". Detail: ", ". gRPC client debug context: ", " Client context: "}) {
    if (const auto at = words.find(clutter); at != std::string::npos) words.erase(at);
  }
  return words.substr(0, 300);
}

// How long somebody has waited without anything moving.
struct Patience {
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  uint64_t seen = 0;
};

class Call : public Stoppable, public std::enable_shared_from_this<Call> {
 public:
  // Once, by whoever made it with `std::make_shared`.
  void start() {
    pool_->watch(shared_from_this());
    const Lock held(mutex_);
    thread_ = std::thread([self = shared_from_this()] { self->run(); });
  }

  void stop() override {
    std::shared_ptr<Stream> stream;
    {
      const std::lock_guard<std::mutex> held(mutex_);
      stopped_ = true;
      stream = stream_;
      changed_.notify_all();
    }
    if (stream != nullptr) stream->TryCancel();
  }

  bool over() const override {
    const Lock held(mutex_);
    return ended_;
  }

  // Stop, and wait until the thread is gone; one that is still connecting is left to end by itself.
  void close() {
    stop();
    Lock held(mutex_);
    const bool ended =
        changed_.wait_for(held, std::chrono::seconds(1), [&] { return ended_; });
    std::thread thread = std::move(thread_);
    held.unlock();
    if (!thread.joinable()) return;
    ended ? thread.join() : thread.detach();
  }

 protected:
  using Lock = std::unique_lock<std::mutex>;

  ~Call() override {  // maybe by the thread itself
    if (thread_.joinable()) thread_.detach();
  }

  Call(std::shared_ptr<Connections> pool, std::string address, double idle_s, Where where,
       std::string subject)
      : pool_(std::move(pool)), address_(std::move(address)), idle_s_(idle_s),
        where_(std::move(where)), subject_(std::move(subject)) {
    where_.agent = where_.agent.empty() ? address_ : where_.agent;
  }

  // The whole call; what goes wrong ends up in `error_`.
  virtual arrow::Status serve() = 0;

  // Open a stream by `open(transport, &stream)`, use it by `use(stream, cut)`, and end it. `use`
  // sets `cut` when its error only tells that the stream broke off: then its own end says why.
  template <class Open, class Use>
  arrow::Status with_stream(Open open, Use use) {
    ARROW_ASSIGN_OR_RAISE(const auto connection, pool_->lend(address_));
    {
      const Lock held(mutex_);
      if (stopped_) return closed_status();
      connection_ = connection;
    }
    std::unique_ptr<Stream> opened;
    const arrow::Status begun = open(connection->transport(), &opened);
    arrow::Status status = begun.ok() ? run_stream(std::move(opened), use) : begun;
    const Lock held(mutex_);
    connection_.reset();
    if (stopped_) return closed_status();
    if (is_broken(status)) pool_->broken(connection);
    return status;
  }

  // Wait a moment: true when `ready` or all is over, false to ask again. The peer is silent when
  // `progress_` stood still for `idle_s_`.
  template <class Ready>
  arrow::Result<bool> wait_moment(Lock& held, Patience& patience, const char* silence,
                                  Ready ready) {
    using Clock = std::chrono::steady_clock;
    const std::chrono::duration<double> idle(idle_s_);
    if (progress_ != patience.seen) patience = {Clock::now(), progress_};
    const auto limit = patience.since + std::chrono::duration_cast<Clock::duration>(idle);
    changed_.wait_until(held, std::min<Clock::time_point>(limit, Clock::now() + MOMENT), [&] {
      return stopped_ || ended_ || ready() || progress_ != patience.seen;
    });
    if (stopped_) return closed_status();
    if (ended_ || ready()) return true;
    if (progress_ == patience.seen && Clock::now() >= limit) return silent(held, silence);
    return false;
  }

  // The peer was silent: nobody shall get this connection again.
  arrow::Status silent(Lock& held, const std::string& what) {
    const auto connection = connection_;
    held.unlock();
    pool_->broken(connection);
    stop();
    return fault("PeerLostError",
                 subject_ + "the agent " + what + " for " + seconds_text(idle_s_) +
                     " s; is it still running?", where_);
  }

  arrow::Status no_answer(const arrow::Status& status, int tries) const {
    const std::string often = tries > 1 ? " in " + std::to_string(tries) + " tries" : "";
    return fault("PeerLostError",
                 subject_ + "no answer" + often + " (" + words_of(status) +
                     "); is the agent still running?", where_);
  }

  arrow::Status closed_status() const {
    return pool_->closed() ? Connections::shut(address_)
                           : fault("CancelledError", subject_ + "the stream was closed", where_);
  }

  const std::shared_ptr<Connections> pool_;
  const std::string address_;
  const double idle_s_;
  Where where_;
  const std::string subject_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopped_ = false, ended_ = false;
  uint64_t progress_ = 0;  // counts whatever the peer did
  arrow::Status error_;  // once ended

 private:
  void run() {
    arrow::Status status;
    try {
      status = serve();
    } catch (const std::exception& error) {
      status = arrow::Status::OutOfMemory("a stream ended: ", error.what());
    }
    const Lock held(mutex_);
    error_ = std::move(status);
    ended_ = true;
    changed_.notify_all();
  }

  template <class Use>
  arrow::Status run_stream(std::shared_ptr<Stream> stream, Use use) {
    bool stopped;
    {
      const Lock held(mutex_);
      stream_ = stream;
      stopped = stopped_;
    }
    bool cut = false;
    const arrow::Status status = stopped ? arrow::Status::Cancelled("stopped") : use(*stream, cut);
    if (!status.ok() && !cut) stream->TryCancel();
    const arrow::Status end = stream->Finish(arrow::Status::OK());
    const Lock held(mutex_);
    stream_.reset();
    return status.ok() || (cut && !end.ok()) ? end : status;
  }

  std::thread thread_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace fabric
