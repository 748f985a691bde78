// Connections to other Flight servers, kept open and shared, and what may be on its way from each.
//
// One job: lend a connection per address. Concurrent streams to one server get connections of their
// own, up to `PER_ADDRESS_MAX` (four cost a fifth less processor); a broken one is thrown away.
// Agents of this host are reached by their Unix sockets. Flight's transports are used directly:
// unlike `FlightClient` they can cancel a stream that has not begun to answer, and break off a put
// so that the server does not take it for a whole one.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/type_fwd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fabric {

class Budget;
class Share;
class Shortcuts;
class Widener;

constexpr size_t PER_ADDRESS_MAX = 4;

struct PeerBounds {
  int64_t bytes = 64 << 20;
  int64_t requests = 16;
};

struct ConnectOptions {
  std::string roots, certificate, key;  // PEM, for grpc+tls addresses
  double connect_s = 20;                // one attempt to connect
  std::shared_ptr<Budget> budget;       // of what came and nobody took yet; may be null
  PeerBounds peer;                      // of the same, for each address
};

// How much is on its way from one peer: the reduce-side governor. Bytes that came or were asked for
// and nobody took yet, and requests in flight, both bounded for each peer. A stream that holds no
// bytes is always let in, so each can move one message at a time. Requests wait only where they
// depend on nobody here but the disk (a task that gathers all of its input): those of streams whose
// readers may wait for each other do not.
class Governor {
 public:
  explicit Governor(PeerBounds bounds) : bounds_(bounds) {}

  // Wait a moment for a request to be let in; whether it was.
  bool begin(std::chrono::milliseconds moment);
  void end();

  // The same for bytes.
  bool reserve(int64_t n_bytes, bool holds_some, std::chrono::milliseconds moment);
  // More or fewer than were reserved; fewer when they are gone.
  void add(int64_t n_bytes);

  int64_t bytes() const;
  int64_t requests() const;

 private:
  const PeerBounds bounds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t bytes_ = 0, requests_ = 0;
};

class Connection {
 public:
  // To the server at `address`, by `way` (the address itself, or a shortcut to it).
  static arrow::Result<std::shared_ptr<Connection>> open(const std::string& address,
                                                         const std::string& way,
                                                         const ConnectOptions& options);

  using Transport = arrow::flight::internal::ClientTransport;

  Connection(std::string address, std::unique_ptr<Transport> transport);
  ~Connection();

  Transport& transport() { return *transport_; }
  const std::string& address() const { return address_; }

 private:
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
  explicit Connections(ConnectOptions options);
  ~Connections();

  // The least used connection to `address`; whoever holds it uses it.
  arrow::Result<std::shared_ptr<Connection>> lend(const std::string& address);

  // From now on new connections to these addresses go by Unix sockets, with `only` to no others;
  // why some can't.
  std::map<std::string, std::string> shorten(const std::map<std::string, std::string>& paths,
                                             bool only);

  // Lend it to nobody any more; it is closed when the last user lets go.
  void broken(const std::shared_ptr<Connection>& connection);

  // From now on `call` is stopped when the pool closes.
  void watch(const std::shared_ptr<Stoppable>& call);

  // Streams still open fail.
  void close();

  // Calls whose thread still runs.
  size_t n_calls() const;

  bool closed() const;

  // What one stream has of the budget.
  std::unique_ptr<Share> share() const;

  std::shared_ptr<Governor> governor(const std::string& address);

  static arrow::Status shut(const std::string& address);

 private:
  const ConnectOptions options_;
  const std::unique_ptr<Shortcuts> shortcuts_;
  const std::unique_ptr<Widener> widener_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, std::vector<std::shared_ptr<Connection>>> open_;
  std::map<std::string, std::shared_ptr<Governor>> governors_;
  std::vector<std::weak_ptr<Stoppable>> calls_;
};

}  // namespace fabric
