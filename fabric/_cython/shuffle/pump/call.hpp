// A Flight call with a thread of its own, which never needs the GIL.
//
// One job: begin, stop, end. Flight has no time-out per message and opening a stream can hang
// too, so a thread opens, reads or writes, and those who wait for it wait with a bound. `stop`
// cancels the stream wherever it is; only an attempt to connect can outlast it. Calls of actions
// are answered at once and have no thread.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/status.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pump/connection.hpp"
#include "wire/fault.hpp"

namespace arrow::flight::internal {
class ClientDataStream;
}

namespace fabric {

using Headers = std::vector<std::pair<std::string, std::string>>;
using Stream = arrow::flight::internal::ClientDataStream;

constexpr double CALL_S_MAX = 24 * 3600.0;
constexpr std::chrono::milliseconds MOMENT(200);  // after which Python looks at its signals

arrow::flight::FlightCallOptions call_options(const Headers& headers, double timeout_s);

// Whether the connection failed, rather than that the server refused in our own words.
bool is_broken(const arrow::Status& status);

// What gRPC said, without what Flight and gRPC put around it.
std::string words_of(const arrow::Status& status);

// How long somebody has waited without anything moving.
struct Patience {
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  uint64_t seen = 0;
};

class Call : public Stoppable, public std::enable_shared_from_this<Call> {
 public:
  // Once, by whoever made it with `std::make_shared`.
  void start();

  void stop() override;

  bool over() const override;

  // Stop, and wait until the thread is gone; one that is still connecting is left to end by itself.
  void close();

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using Open = std::function<arrow::Status(Connection::Transport&, std::unique_ptr<Stream>*)>;
  using Use = std::function<arrow::Status(Stream&, bool& cut)>;

  Call(std::shared_ptr<Connections> pool, std::string address, double idle_s, Where where,
       std::string subject);
  ~Call() override;

  // The whole call; what goes wrong ends up in `error_`.
  virtual arrow::Status serve() = 0;

  // Open a stream by `open(transport, &stream)`, use it by `use(stream, cut)`, and end it. `use`
  // sets `cut` when its error only tells that the stream broke off: then its own end says why.
  arrow::Status with_stream(const Open& open, const Use& use);

  // Wait a moment: true when `ready` or all is over, false to ask again. The peer is silent when
  // `progress_` stood still for `idle_s_`.
  arrow::Result<bool> wait_moment(Lock& held, Patience& patience, const char* silence,
                                  const std::function<bool()>& ready);

  arrow::Status no_answer(const arrow::Status& status, int tries) const;

  arrow::Status closed_status() const;

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
  void run();
  arrow::Status run_stream(std::shared_ptr<Stream> stream, const Use& use);
  arrow::Status silent(Lock& held, const std::string& what);

  std::thread thread_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Connection> connection_;
};

// Call an action of the server at `address`; the bodies of its results.
arrow::Result<std::vector<std::string>> act(Connections& pool, const std::string& address,
                                            const std::string& name, const std::string& body,
                                            const Headers& headers, double timeout_s);

}  // namespace fabric
