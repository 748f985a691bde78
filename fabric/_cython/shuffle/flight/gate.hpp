// Who is calling: every verb of the server passes here first.
//
// One job: check the token of every call (Handshake excepted, which has its own proof), bound the
// number of open calls, of all and of one client, and the time a client may take, give named
// headers back with the answer, and have the log say who was refused. A token's text is shown to
// Python once; what it decided is remembered until it expires. What a scope may do, the verbs
// decide.
#pragma once
#include <arrow/flight/server_middleware.h>
#include <openssl/sha.h>

#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "flight/asking.hpp"
#include "flight/awaited.hpp"
#include "flight/limits.hpp"
#include "wire/ticket.hpp"

namespace fabric {

constexpr const char* CALLER = "fabric";  // the middleware's name

// The claims of tokens that Python found good, by digest: no token lies in memory for long.
class KnownTokens {
 public:
  static constexpr size_t TOKENS_MAX = 4096;

  arrow::Result<Claims> claims(const Asking& ask, std::string_view header) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(header.data()), header.size(), digest);
    const std::string key(reinterpret_cast<const char*>(digest), sizeof digest);
    const double now_s = ask.wall_s();
    {
      std::lock_guard lock(mutex_);
      const auto found = known_.find(key);
      if (found != known_.end() && now_s <= found->second.expires_s + SKEW_S) return found->second;
    }
    Claims claims;
    ARROW_RETURN_NOT_OK(ask.verify(ask.face.get(), std::string(header), claims));
    claims.key = key;
    std::lock_guard lock(mutex_);
    if (known_.size() >= TOKENS_MAX) {
      std::erase_if(known_, [&](const auto& k) { return now_s > k.second.expires_s + SKEW_S; });
    }
    if (known_.size() >= TOKENS_MAX) known_.erase(known_.begin());
    known_[key] = claims;
    return claims;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Claims> known_;
};

// Calls that are open now.
class Inside {
 public:
  explicit Inside(const Limits& limits)
      : most_(limits.streams_max), peer_most_(limits.peer_streams_max) {}

  // `peer` names a client; nobody is counted without a name. A `stream` moves rows.
  arrow::Status enter(const std::string& peer, bool stream) {
    std::lock_guard lock(mutex_);
    if (closed_) return fault("PeerLostError", "this agent is shutting down; ask another one");
    if (n_ >= most_) {
      return fault("PeerLostError", "this agent already serves " + std::to_string(n_) +
                                        " calls at once; try again later");
    }
    if (!peer.empty()) {
      int64_t& mine = peers_[peer];
      if (mine >= peer_most_) {
        return fault("PeerLostError", "this client already has " + std::to_string(mine) +
                                          " calls open here; let some end first");
      }
      ++mine;
    }
    ++n_;
    changes_ += stream;
    return arrow::Status::OK();
  }
  void leave(const std::string& peer, bool stream) {
    std::lock_guard lock(mutex_);
    --n_;
    changes_ += stream;
    const auto mine = peers_.find(peer);
    if (mine != peers_.end() && --mine->second == 0) peers_.erase(mine);
    changed_.notify_all();
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  bool wait_empty(double timeout_s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                             [this] { return n_ == 0; });
  }
  int64_t open() const {
    std::lock_guard lock(mutex_);
    return n_;
  }
  // Grows when a stream begins or ends.
  int64_t changes() const {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  void set_most(int64_t most) {
    std::lock_guard lock(mutex_);
    most_ = most;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t n_ = 0, changes_ = 0, most_;
  const int64_t peer_most_;
  std::unordered_map<std::string, int64_t> peers_;
  bool closed_ = false;
};

// One call and its checked claims; gives its place back when the call is over, however it ends.
class Caller : public fl::ServerMiddleware {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Caller(std::shared_ptr<Inside> inside, std::string name, bool stream,
         std::optional<Claims> claims, Headers echo, std::shared_ptr<Watch> watch,
         const std::string& peer, std::optional<double> limit_s)
      : inside_(std::move(inside)), name_(std::move(name)), stream_(stream),
        claims_(std::move(claims)), echo_(std::move(echo)),
        awaited_(std::move(watch), peer, limit_s) {}
  ~Caller() override { inside_->leave(name_, stream_); }

  std::string name() const override { return CALLER; }
  // Flight asks twice in some verbs.
  void SendingHeaders(fl::AddCallHeaders* out) override {
    for (const auto& [name, value] : std::exchange(echo_, {})) out->AddHeader(name, value);
  }
  void CallCompleted(const arrow::Status&) override {}
  const std::optional<Claims>& claims() const { return claims_; }
  Awaited& awaited() { return awaited_; }

 private:
  std::shared_ptr<Inside> inside_;
  const std::string name_;  // by which the client's calls are counted
  const bool stream_;
  std::optional<Claims> claims_;
  Headers echo_;
  Awaited awaited_;
};

class Gate : public fl::ServerMiddlewareFactory {
 public:
  static constexpr size_t ECHO_BYTES_MAX = 256;

  Gate(const Asking& ask, std::shared_ptr<Inside> inside, std::shared_ptr<Watch> watch,
       const Limits& limits, std::vector<std::string> echoed)
      : ask_(ask), inside_(std::move(inside)), watch_(std::move(watch)), limits_(limits),
        echoed_(std::move(echoed)) {}

  arrow::Status StartCall(const fl::CallInfo& info, const fl::ServerCallContext& context,
                          std::shared_ptr<fl::ServerMiddleware>* middleware) override {
    std::optional<Claims> claims;
    if (info.method != fl::FlightMethod::Handshake) {
      auto checked = check(context);
      if (!checked.ok()) {
        refuse(info.method, checked.status());
        return ask_.outward(checked.status());
      }
      claims = std::move(*checked);
    }
    const bool agent = claims && claims->is_agent();
    std::optional<double> limit_s = claims ? limits_.peer_idle_s : limits_.handshake_s;
    if (agent) limit_s.reset();  // one that is gone is known by its heartbeats
    std::string name = agent ? "" : host_of(context.peer()) + (claims ? claims->key : "");
    const bool stream = info.method == fl::FlightMethod::DoGet ||
                        info.method == fl::FlightMethod::DoPut ||
                        info.method == fl::FlightMethod::DoExchange;
    if (const arrow::Status full = inside_->enter(name, stream); !full.ok()) {
      return ask_.outward(full);
    }
    *middleware = std::make_shared<Caller>(inside_, std::move(name), stream, std::move(claims),
                                           echo(context), watch_, context.peer(), limit_s);
    return arrow::Status::OK();
  }

 private:
  // A bearer token, or Flight's own header for what a handshake gave; a client that never shook
  // hands sends that one empty. Who has neither is judged as the token "".
  arrow::Result<Claims> check(const fl::ServerCallContext& context) {
    const auto [first, last] = context.incoming_headers().equal_range("authorization");
    if (first != last && std::next(first) == last) return tokens_.claims(ask_, first->second);
    const auto [given, end] = context.incoming_headers().equal_range("auth-token-bin");
    if (first != last || (given != end && std::next(given) != end)) {
      return fault("AuthError", "this call needs one header: authorization: Bearer <token>");
    }
    if (given == end || given->second.empty()) return tokens_.claims(ask_, "");
    return tokens_.claims(ask_, "Bearer " + std::string(given->second));
  }

  Caller::Headers echo(const fl::ServerCallContext& context) const {
    Caller::Headers found;
    for (const std::string& name : echoed_) {
      const auto given = context.incoming_headers().find(name);
      if (given == context.incoming_headers().end()) continue;
      if (given->second.size() <= ECHO_BYTES_MAX) found.emplace_back(name, given->second);
    }
    return found;
  }

  void refuse(fl::FlightMethod method, const arrow::Status& why) const {
    constexpr const char* names[] = {"INVALID", "HANDSHAKE", "LIST_FLIGHTS", "GET_FLIGHT_INFO",
                                     "GET_SCHEMA", "DO_GET", "DO_PUT", "DO_ACTION",
                                     "LIST_ACTIONS", "DO_EXCHANGE", "POLL_FLIGHT_INFO"};
    const auto at = static_cast<size_t>(method);
    ask_.refused(ask_.face.get(), at < std::size(names) ? names[at] : names[0], why.message());
  }

  Asking ask_;
  std::shared_ptr<Inside> inside_;
  std::shared_ptr<Watch> watch_;
  const Limits limits_;
  std::vector<std::string> echoed_;
  KnownTokens tokens_;
};

// Who calls; null when no gate was passed.
inline Caller* caller_of(const fl::ServerCallContext& context) {
  return static_cast<Caller*>(context.GetMiddleware(CALLER));
}

inline Awaited* awaited_of(const fl::ServerCallContext& context) {
  Caller* caller = caller_of(context);
  return caller == nullptr ? nullptr : &caller->awaited();
}

// The claims of a call; an AuthError when no gate checked it.
inline arrow::Result<Claims> claims_of(const fl::ServerCallContext& context) {
  const Caller* caller = caller_of(context);
  if (caller == nullptr || !caller->claims()) {
    return fault("AuthError", "this call was not authenticated");
  }
  return *caller->claims();
}

}  // namespace fabric
