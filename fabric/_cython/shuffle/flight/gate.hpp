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

// Who makes a call, as far as places are given out.
struct Guest {
  enum class Kind { AGENT, CLIENT, STRANGER };  // a stranger has shown no token
  Kind kind = Kind::STRANGER;
  std::string name;    // whose calls are counted together
  bool stream = true;  // moves rows
};

// Calls that are open now. Agents always find a place, and who has a token one beside strangers.
class Inside {
 public:
  explicit Inside(const Limits& limits)
      : most_(limits.streams_max), peer_most_(limits.peer_streams_max) {}

  arrow::Status enter(const Guest& guest) {
    std::lock_guard lock(mutex_);
    if (closed_) return fault("PeerLostError", "this agent is shutting down; ask another one");
    if (guest.kind != Guest::Kind::AGENT) ARROW_RETURN_NOT_OK(place(guest));
    ++n_;
    changes_ += guest.stream;
    return arrow::Status::OK();
  }
  void leave(const Guest& guest) {
    std::lock_guard lock(mutex_);
    --n_;
    changes_ += guest.stream;
    clients_ -= guest.kind != Guest::Kind::AGENT;
    strangers_ -= guest.kind == Guest::Kind::STRANGER;
    const auto mine = peers_.find(guest.name);
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
  static constexpr int64_t STRANGERS_SHARE = 4;  // of all places

  arrow::Status place(const Guest& guest) {
    const bool stranger = guest.kind == Guest::Kind::STRANGER;
    const int64_t strangers_most = std::max<int64_t>(1, most_ / STRANGERS_SHARE);
    if (clients_ >= most_ || (stranger && strangers_ >= strangers_most)) {
      return fault("PeerLostError", "this agent already serves " +
                                        std::to_string(stranger ? strangers_ : clients_) +
                                        " calls at once; try again later");
    }
    int64_t& mine = peers_[guest.name];
    if (mine >= peer_most_) {
      return fault("PeerLostError", "this client already has " + std::to_string(mine) +
                                        " calls open here; let some end first");
    }
    ++mine;
    ++clients_;
    strangers_ += stranger;
    return arrow::Status::OK();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t n_ = 0, clients_ = 0, strangers_ = 0, changes_ = 0, most_;
  const int64_t peer_most_;
  std::unordered_map<std::string, int64_t> peers_;
  bool closed_ = false;
};

// One call and its checked claims; gives its place back when the call is over, however it ends.
class Caller : public fl::ServerMiddleware {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Caller(std::shared_ptr<Inside> inside, Guest guest, std::optional<Claims> claims, Headers echo,
         std::shared_ptr<Watch> watch, const std::string& peer, std::optional<double> limit_s)
      : inside_(std::move(inside)), guest_(std::move(guest)), claims_(std::move(claims)),
        echo_(std::move(echo)), awaited_(std::move(watch), peer, limit_s) {}
  ~Caller() override { inside_->leave(guest_); }

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
  const Guest guest_;
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
    Guest guest = guest_of(info.method, context.peer(), claims);
    std::optional<double> limit_s = claims ? limits_.peer_idle_s : limits_.handshake_s;
    // An agent that is gone is known by its heartbeats.
    if (guest.kind == Guest::Kind::AGENT) limit_s.reset();
    if (const arrow::Status full = inside_->enter(guest); !full.ok()) return ask_.outward(full);
    *middleware = std::make_shared<Caller>(inside_, std::move(guest), std::move(claims),
                                           echo(context), watch_, context.peer(), limit_s);
    return arrow::Status::OK();
  }

 private:
  static Guest guest_of(fl::FlightMethod method, const std::string& peer,
                        const std::optional<Claims>& claims) {
    Guest guest;
    guest.stream = method == fl::FlightMethod::DoGet || method == fl::FlightMethod::DoPut ||
                   method == fl::FlightMethod::DoExchange;
    guest.name = host_of(peer) + (claims ? claims->key : "");
    if (claims) guest.kind = claims->is_agent() ? Guest::Kind::AGENT : Guest::Kind::CLIENT;
    return guest;
  }

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
