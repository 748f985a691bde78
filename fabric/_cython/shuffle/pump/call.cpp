// How a call is opened, watched and ended.
//
// One job: the thread of a call, the waits of those beside it, and what Flight's errors mean.
#include "pump/call.hpp"

#include <arrow/flight/client.h>
#include <arrow/flight/transport.h>

#include <algorithm>
#include <optional>

namespace fabric {
namespace {

// The Flight code of a status; nothing when it has none.
std::optional<arrow::flight::FlightStatusCode> code_of(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  if (detail == nullptr) return std::nullopt;
  return detail->code();
}

}  // namespace

arrow::flight::FlightCallOptions call_options(const Headers& headers, double timeout_s) {
  arrow::flight::FlightCallOptions options;
  options.headers = headers;
  options.timeout = arrow::flight::TimeoutDuration{timeout_s};
  return options;
}

bool is_broken(const arrow::Status& status) {
  using Code = arrow::flight::FlightStatusCode;
  const auto code = code_of(status);
  return code && (*code == Code::Unavailable || *code == Code::Cancelled) &&
         detail_of(status).empty();
}

std::string words_of(const arrow::Status& status) {
  std::string words = status.message();
  const std::string lead = "with message: ";
  if (const auto at = words.find(lead); at != std::string::npos) words.erase(0, at + lead.size());
  for (const char* clutter : {". Detail: ", ". gRPC client debug context: ", " Client context: "}) {
    if (const auto at = words.find(clutter); at != std::string::npos) words.erase(at);
  }
  return words.substr(0, 300);
}

Call::Call(std::shared_ptr<Connections> pool, std::string address, double idle_s, Where where,
           std::string subject)
    : pool_(std::move(pool)), address_(std::move(address)), idle_s_(idle_s),
      where_(std::move(where)), subject_(std::move(subject)) {
  where_.agent = where_.agent.empty() ? address_ : where_.agent;
}

Call::~Call() {  // maybe by the thread itself
  if (thread_.joinable()) thread_.detach();
}

void Call::start() {
  pool_->watch(shared_from_this());
  const Lock held(mutex_);
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
}

void Call::stop() {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard<std::mutex> held(mutex_);
    stopped_ = true;
    stream = stream_;
    changed_.notify_all();
  }
  if (stream != nullptr) stream->TryCancel();
}

bool Call::over() const {
  const Lock held(mutex_);
  return ended_;
}

void Call::close() {
  stop();
  Lock held(mutex_);
  const bool ended =
      changed_.wait_for(held, std::chrono::seconds(1), [&] { return ended_; });
  std::thread thread = std::move(thread_);
  held.unlock();
  if (!thread.joinable()) return;
  ended ? thread.join() : thread.detach();
}

arrow::Status Call::with_stream(const Open& open, const Use& use) {
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

arrow::Result<bool> Call::wait_moment(Lock& held, Patience& patience, const char* silence,
                                      const std::function<bool()>& ready) {
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
arrow::Status Call::silent(Lock& held, const std::string& what) {
  const auto connection = connection_;
  held.unlock();
  pool_->broken(connection);
  stop();
  return fault("PeerLostError",
               subject_ + "the agent " + what + " for " + seconds_text(idle_s_) +
                   " s; is it still running?", where_);
}

arrow::Status Call::no_answer(const arrow::Status& status, int tries) const {
  const std::string often = tries > 1 ? " in " + std::to_string(tries) + " tries" : "";
  return fault("PeerLostError",
               subject_ + "no answer" + often + " (" + words_of(status) +
                   "); is the agent still running?", where_);
}

arrow::Status Call::closed_status() const {
  return pool_->closed() ? Connections::shut(address_)
                         : fault("CancelledError", subject_ + "the stream was closed", where_);
}

void Call::run() {
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

arrow::Status Call::run_stream(std::shared_ptr<Stream> stream, const Use& use) {
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

arrow::Result<std::vector<std::string>> act(Connections& pool, const std::string& address,
                                            const std::string& name, const std::string& body,
                                            const Headers& headers, double timeout_s) {
  ARROW_ASSIGN_OR_RAISE(const auto connection, pool.lend(address));
  arrow::flight::Action action{name, arrow::Buffer::FromString(body)};
  std::unique_ptr<arrow::flight::ResultStream> results;
  std::vector<std::string> bodies;
  const auto run = [&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(connection->transport().DoAction(call_options(headers, timeout_s), action,
                                                         &results));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto result, results->Next());
      if (result == nullptr) return arrow::Status::OK();
      bodies.push_back(result->body == nullptr ? std::string() : result->body->ToString());
    }
  };
  const arrow::Status status = run();
  if (is_broken(status)) pool.broken(connection);
  ARROW_RETURN_NOT_OK(status);
  return bodies;
}

}  // namespace fabric
