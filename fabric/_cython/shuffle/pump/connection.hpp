// Connections to other Flight servers, kept open and shared.
//
// One job: lend a connection per address. Concurrent streams to one server get connections of their
// own, up to `PER_ADDRESS_MAX` (four cost a fifth less processor); a broken one is thrown away.
// Flight's transports are used directly: unlike `FlightClient` they can cancel a stream that has
// not begun to answer, and break off a put so that the server does not take it for a whole one.
#pragma once
#include <arrow/flight/client.h>
#include <arrow/flight/transport.h>
#include <arrow/util/uri.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pump/governor.hpp"
#include "pump/shortcuts.hpp"
#include "store/budget.hpp"
#include "wire/fault.hpp"
#include "wire/widen.hpp"

namespace arrow::flight::transport::grpc {
void InitializeFlightGrpcClient();  // exported by libarrow_flight, its header is not shipped
}

namespace fabric {

constexpr size_t PER_ADDRESS_MAX = 4;

struct ConnectOptions {
  std::string roots, certificate, key;  // PEM, for grpc+tls addresses
  double connect_s = 20;                // one attempt to connect
  std::shared_ptr<Budget> budget;       // of what came and nobody took yet; may be null
  PeerBounds peer;                      // of the same, for each address
};

class Connection {
 public:
  // To the server at `address`, by `way` (the address itself, or a shortcut to it).
  static arrow::Result<std::shared_ptr<Connection>> open(const std::string& address,
                                                         const std::string& way,
                                                         const ConnectOptions& options) {
    auto found = transport_to(way, options);
    if (found.ok()) return std::make_shared<Connection>(address, *std::move(found));
    return fault("ConfigError", "'" + address.substr(0, 200) +
                                    "' is no Flight address; use grpc+tcp://host:port or "
                                    "grpc+tls://…");
  }

  using Transport = arrow::flight::internal::ClientTransport;

  Connection(std::string address, std::unique_ptr<Transport> transport)
      : address_(std::move(address)), transport_(std::move(transport)) {}
  ~Connection() { (void)transport_->Close(); }

  Transport& transport() { return *transport_; }
  const std::string& address() const { return address_; }

 private:
  static arrow::Result<std::unique_ptr<Transport>> transport_to(const std::string& address,
                                                                const ConnectOptions& options) {
    arrow::flight::transport::grpc::InitializeFlightGrpcClient();  // does it once
    arrow::util::Uri uri;
    ARROW_RETURN_NOT_OK(uri.Parse(address));
    ARROW_ASSIGN_OR_RAISE(const auto location, arrow::flight::Location::Parse(address));
    auto* registry = arrow::flight::internal::GetDefaultTransportRegistry();
    ARROW_ASSIGN_OR_RAISE(auto transport, registry->MakeClient(uri.scheme()));
    auto with = arrow::flight::FlightClientOptions::Defaults();
    if (uri.scheme() == "grpc+tls") {
      with.tls_root_certs = options.roots;
      with.cert_chain = options.certificate;
      with.private_key = options.key;
    }
    with.generic_options = {
        {"grpc.use_local_subchannel_pool", 1},
        {"grpc.initial_reconnect_backoff_ms", 100},
        {"grpc.max_reconnect_backoff_ms", 1000},
        {"grpc.min_reconnect_backoff_ms", static_cast<int>(options.connect_s * 1000)}};
    ARROW_RETURN_NOT_OK(transport->Init(with, location, uri));
    return transport;
  }

  std::string address_;
  std::unique_ptr<Transport> transport_;
};

// What uses a connection and can be told to stop: see `call.hpp`.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  virtual void stop() = 0;  // never waits
  virtual bool over() const = 0;
};

// Connections by address; thread-safe. Nothing in here waits for a network.
class Connections {
 public:
  explicit Connections(ConnectOptions options) : options_(std::move(options)) {}

  // The least used connection to `address`; whoever holds it uses it.
  arrow::Result<std::shared_ptr<Connection>> lend(const std::string& address) {
    if (shortcuts_.any()) widener_.look();  // what is new gets room from its second stream on
    const std::lock_guard<std::mutex> held(mutex_);
    if (closed_) return shut(address);
    auto& here = open_[address];
    const auto least = std::min_element(
        here.begin(), here.end(),
        [](const auto& a, const auto& b) { return a.use_count() < b.use_count(); });
    const bool idle = least != here.end() && least->use_count() == 1;  // the pool's own
    if (idle || here.size() >= PER_ADDRESS_MAX) return *least;
    ARROW_ASSIGN_OR_RAISE(auto fresh,
                          Connection::open(address, shortcuts_.way_to(address), options_));
    here.push_back(fresh);
    return fresh;
  }

  // From now on new connections to these addresses go by Unix sockets, with `only` to no others;
  // why some can't.
  std::map<std::string, std::string> shorten(const std::map<std::string, std::string>& paths,
                                             bool only) {
    return shortcuts_.add(paths, only);
  }

  // Lend it to nobody any more; it is closed when the last user lets go.
  void broken(const std::shared_ptr<Connection>& connection) {
    if (connection == nullptr) return;
    const std::lock_guard<std::mutex> held(mutex_);
    const auto found = open_.find(connection->address());
    if (found != open_.end()) std::erase(found->second, connection);
  }

  // From now on `call` is stopped when the pool closes.
  void watch(const std::shared_ptr<Stoppable>& call) {
    {
      const std::lock_guard<std::mutex> held(mutex_);
      std::erase_if(calls_, [](const auto& known) { return known.expired(); });
      if (!closed_) {
        calls_.push_back(call);
        return;
      }
    }
    call->stop();
  }

  // Streams still open fail.
  void close() {
    std::map<std::string, std::vector<std::shared_ptr<Connection>>> open;
    std::vector<std::weak_ptr<Stoppable>> calls;
    {
      const std::lock_guard<std::mutex> held(mutex_);
      closed_ = true;
      open.swap(open_);
      calls.swap(calls_);
    }
    for (const auto& known : calls) {
      if (const auto call = known.lock()) call->stop();
    }
  }

  // Calls whose thread still runs.
  size_t n_calls() const {
    std::vector<std::weak_ptr<Stoppable>> calls;
    {
      const std::lock_guard<std::mutex> held(mutex_);
      calls = calls_;
    }
    return static_cast<size_t>(std::count_if(calls.begin(), calls.end(), [](const auto& known) {
      const auto call = known.lock();
      return call != nullptr && !call->over();
    }));
  }

  bool closed() const {
    const std::lock_guard<std::mutex> held(mutex_);
    return closed_;
  }

  // What one stream has of the budget.
  std::unique_ptr<Share> share() const {
    return options_.budget == nullptr ? nullptr : std::make_unique<Share>(options_.budget);
  }

  std::shared_ptr<Governor> governor(const std::string& address) {
    const std::lock_guard<std::mutex> held(mutex_);
    auto& found = governors_[address];
    if (found == nullptr) found = std::make_shared<Governor>(options_.peer);
    return found;
  }

  static arrow::Status shut(const std::string& address) {
    return fault("PeerLostError", "the connection to " + address + " was closed: shutting down");
  }

 private:
  const ConnectOptions options_;
  Shortcuts shortcuts_;
  Widener widener_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, std::vector<std::shared_ptr<Connection>>> open_;
  std::map<std::string, std::shared_ptr<Governor>> governors_;
  std::vector<std::weak_ptr<Stoppable>> calls_;
};

}  // namespace fabric
