// How connections are made, lent and given up.
//
// One job: transports of Flight, the shortcuts to agents of this host, and what is bounded for each
// peer.
#include "pump/connection.hpp"

#include <arrow/flight/client.h>
#include <arrow/flight/transport.h>
#include <arrow/util/uri.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "store/budget.hpp"
#include "wire/fault.hpp"
#include "wire/sockets.hpp"

namespace arrow::flight::transport::grpc {
void InitializeFlightGrpcClient();  // exported by libarrow_flight, its header is not shipped
}

namespace fabric {
namespace {

// Why the socket at `path` can't be used; empty when it can.
std::string socket_trouble(const std::string& path) {
  const auto failed = [] { return std::generic_category().message(errno); };
  sockaddr_un name{};
  if (path.size() >= sizeof name.sun_path || path.empty() || path[0] != '/') {
    return "its path is too long, or none";
  }
  struct stat folder{};
  if (lstat(path.substr(0, path.rfind('/')).c_str(), &folder) != 0) return failed();
  if (!S_ISDIR(folder.st_mode) || folder.st_uid != geteuid() || (folder.st_mode & 077) != 0) {
    return "its folder is not this user's alone";
  }
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (end < 0) return failed();
  const int done = connect(end, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  const std::string why = done == 0 || errno == EAGAIN ? "" : failed();  // EAGAIN: many wait there
  close(end);
  return why;
}

arrow::Result<std::unique_ptr<Connection::Transport>> transport_to(const std::string& address,
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

}  // namespace

// Shortcuts to agents of this host: their Unix sockets, by Flight address. Whoever listens there is
// shown our token, so the socket must lie in a folder that is this user's alone, where nobody else
// can have put it. One that does not answer is forgotten; its agent is then reached by its address.
// Never waits for a network.
class Shortcuts {
 public:
  // Use these sockets (with `only` no others); why some can't be used.
  std::map<std::string, std::string> add(const std::map<std::string, std::string>& paths,
                                         bool only) {
    std::map<std::string, std::string> refused;
    const std::lock_guard<std::mutex> held(mutex_);
    if (only) paths_.clear();
    for (const auto& [address, path] : paths) {
      if (std::string why = socket_trouble(path); !why.empty()) {
        refused[address] = std::move(why);
        paths_.erase(address);
      } else {
        paths_[address] = path;
      }
    }
    return refused;
  }

  bool any() const {
    const std::lock_guard<std::mutex> held(mutex_);
    return !paths_.empty();
  }

  // How to reach the server at `address` now: its socket, or the address itself.
  std::string way_to(const std::string& address) {
    const std::lock_guard<std::mutex> held(mutex_);
    const auto found = paths_.find(address);
    if (found == paths_.end()) return address;
    if (socket_trouble(found->second).empty()) return "grpc+unix://" + found->second;
    paths_.erase(found);
    return address;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> paths_;
};

bool Governor::begin(std::chrono::milliseconds moment) {
  std::unique_lock lock(mutex_);
  const bool free = changed_.wait_for(lock, moment, [&] { return requests_ < bounds_.requests; });
  if (free) ++requests_;
  return free;
}

void Governor::end() {
  const std::lock_guard lock(mutex_);
  --requests_;
  changed_.notify_all();
}

bool Governor::reserve(int64_t n_bytes, bool holds_some, std::chrono::milliseconds moment) {
  std::unique_lock lock(mutex_);
  const bool fits = changed_.wait_for(
      lock, moment, [&] { return !holds_some || bytes_ + n_bytes <= bounds_.bytes; });
  if (fits) bytes_ += n_bytes;
  return fits;
}

void Governor::add(int64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += n_bytes;
  if (n_bytes < 0) changed_.notify_all();
}

int64_t Governor::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t Governor::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

arrow::Result<std::shared_ptr<Connection>> Connection::open(const std::string& address,
                                                            const std::string& way,
                                                            const ConnectOptions& options) {
  auto found = transport_to(way, options);
  if (found.ok()) return std::make_shared<Connection>(address, *std::move(found));
  return fault("ConfigError", "'" + address.substr(0, 200) +
                                  "' is no Flight address; use grpc+tcp://host:port or "
                                  "grpc+tls://…");
}

Connection::Connection(std::string address, std::unique_ptr<Transport> transport)
    : address_(std::move(address)), transport_(std::move(transport)) {}

Connection::~Connection() { (void)transport_->Close(); }

Connections::Connections(ConnectOptions options)
    : options_(std::move(options)), shortcuts_(std::make_unique<Shortcuts>()),
      widener_(std::make_unique<Widener>()) {}

Connections::~Connections() = default;

arrow::Result<std::shared_ptr<Connection>> Connections::lend(const std::string& address) {
  if (shortcuts_->any()) widener_->look();  // what is new gets room from its second stream on
  const std::lock_guard<std::mutex> held(mutex_);
  if (closed_) return shut(address);
  auto& here = open_[address];
  const auto least = std::min_element(
      here.begin(), here.end(),
      [](const auto& a, const auto& b) { return a.use_count() < b.use_count(); });
  const bool idle = least != here.end() && least->use_count() == 1;  // the pool's own
  if (idle || here.size() >= PER_ADDRESS_MAX) return *least;
  ARROW_ASSIGN_OR_RAISE(auto fresh,
                        Connection::open(address, shortcuts_->way_to(address), options_));
  here.push_back(fresh);
  return fresh;
}

std::map<std::string, std::string> Connections::shorten(
    const std::map<std::string, std::string>& paths, bool only) {
  return shortcuts_->add(paths, only);
}

void Connections::broken(const std::shared_ptr<Connection>& connection) {
  if (connection == nullptr) return;
  const std::lock_guard<std::mutex> held(mutex_);
  const auto found = open_.find(connection->address());
  if (found != open_.end()) std::erase(found->second, connection);
}

void Connections::watch(const std::shared_ptr<Stoppable>& call) {
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

void Connections::close() {
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

size_t Connections::n_calls() const {
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

bool Connections::closed() const {
  const std::lock_guard<std::mutex> held(mutex_);
  return closed_;
}

std::unique_ptr<Share> Connections::share() const {
  return options_.budget == nullptr ? nullptr : std::make_unique<Share>(options_.budget);
}

std::shared_ptr<Governor> Connections::governor(const std::string& address) {
  const std::lock_guard<std::mutex> held(mutex_);
  auto& found = governors_[address];
  if (found == nullptr) found = std::make_shared<Governor>(options_.peer);
  return found;
}

arrow::Status Connections::shut(const std::string& address) {
  return fault("PeerLostError", "the connection to " + address + " was closed: shutting down");
}

}  // namespace fabric
