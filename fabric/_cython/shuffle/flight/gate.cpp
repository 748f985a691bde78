// The handshake, tokens and the middleware of calls: see `gate.hpp`.
//
// One job: from the headers of a call to its claims and its place.
#include "flight/gate.hpp"

#include <arrow/flight/server.h>

#include <iterator>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "wire/admission.hpp"
#include "wire/fault.hpp"
#include "wire/sha256.hpp"
#include "wire/sockets.hpp"
#include "wire/ticket.hpp"

namespace fabric {

// The claims of tokens that Python found good, by digest: no token lies in memory for long.
class KnownTokens {
 public:
  static constexpr size_t TOKENS_MAX = 4096;

  arrow::Result<Claims> claims(const Asking& ask, std::string_view header) {
    const auto digest = sha256(header);
    const std::string key(reinterpret_cast<const char*>(digest.data()), digest.size());
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

namespace {

constexpr size_t ECHO_BYTES_MAX = 256;

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

Guest guest_of(fl::FlightMethod method, const std::string& peer,
                  const std::optional<Claims>& claims) {
  Guest guest;
  guest.stream = method == fl::FlightMethod::DoGet || method == fl::FlightMethod::DoPut ||
                 method == fl::FlightMethod::DoExchange;
  guest.name = host_of(peer) + (claims ? claims->key : "");
  if (claims) guest.kind = claims->is_agent() ? Guest::Kind::AGENT : Guest::Kind::CLIENT;
  return guest;
}

// Who calls; null when no gate was passed.
Caller* caller_of(const fl::ServerCallContext& context) {
  return static_cast<Caller*>(context.GetMiddleware(CALLER));
}

}  // namespace

arrow::Status Handshake::Authenticate(const fl::ServerCallContext&, fl::ServerAuthSender* outgoing,
                                      fl::ServerAuthReader* incoming) {
  return ask_.outward(run(*outgoing, *incoming));
}

arrow::Status Handshake::IsValid(const fl::ServerCallContext&, const std::string&,
                                 std::string* peer_identity) {
  peer_identity->clear();
  return arrow::Status::OK();
}

arrow::Status Handshake::run(fl::ServerAuthSender& outgoing, fl::ServerAuthReader& incoming) {
  std::string first, nonce, proof, token;
  ARROW_RETURN_NOT_OK(read(incoming, first, LOGIN_BYTES_MAX));
  if (first.starts_with(USER) || first.starts_with(PASSWORD)) {
    ARROW_RETURN_NOT_OK(login(first, token));
    return outgoing.Write(token);
  }
  if (first.size() > BYTES_MAX) return refused();
  ARROW_RETURN_NOT_OK(ask_.challenge(ask_.face.get(), first, nonce));
  ARROW_RETURN_NOT_OK(outgoing.Write(nonce));
  ARROW_RETURN_NOT_OK(read(incoming, proof, BYTES_MAX));
  ARROW_RETURN_NOT_OK(ask_.prove(ask_.face.get(), first, nonce, proof, token));
  return outgoing.Write(token);
}

arrow::Status Handshake::login(const std::string& bytes, std::string& token) const {
  fl::BasicAuth given;
  if (!fl::BasicAuth::Deserialize(bytes, &given).ok()) return refused();
  return ask_.login(ask_.face.get(), given.username, given.password, token);
}

arrow::Status Handshake::read(fl::ServerAuthReader& incoming, std::string& out, size_t most) {
  return incoming.Read(&out).ok() && out.size() <= most ? arrow::Status::OK() : refused();
}

arrow::Status Handshake::refused() {
  return fault("AuthError", "the handshake is not one of this fabric");
}

Gate::Gate(const Asking& ask, std::shared_ptr<Inside> inside, std::shared_ptr<Watch> watch,
           std::shared_ptr<Admission> admission, const Limits& limits,
           std::vector<std::string> echoed)
    : ask_(ask), inside_(std::move(inside)), watch_(std::move(watch)),
      admission_(std::move(admission)), limits_(limits), echoed_(std::move(echoed)),
      tokens_(std::make_unique<KnownTokens>()) {}

Gate::~Gate() = default;

arrow::Status Gate::StartCall(const fl::CallInfo& info, const fl::ServerCallContext& context,
                              std::shared_ptr<fl::ServerMiddleware>* middleware) {
  std::optional<Claims> claims;
  if (info.method != fl::FlightMethod::Handshake) {
    auto checked = check(context);
    if (!checked.ok()) {
      refuse(info.method, checked.status(), context.peer());
      return ask_.outward(checked.status());
    }
    claims = std::move(*checked);
    if (has_address(context.peer())) {
      admission_->admit(context.peer(), claims->is_agent() ? Admission::Kind::AGENT
                                                           : Admission::Kind::CLIENT);
    }
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

// A bearer token, or Flight's own header for what a handshake gave; a client that never shook
// hands sends that one empty. Who has neither is judged as the token "".
arrow::Result<Claims> Gate::check(const fl::ServerCallContext& context) {
  const auto [first, last] = context.incoming_headers().equal_range("authorization");
  if (first != last && std::next(first) == last) return tokens_->claims(ask_, first->second);
  const auto [given, end] = context.incoming_headers().equal_range("auth-token-bin");
  if (first != last || (given != end && std::next(given) != end)) {
    return fault("AuthError", "this call needs one header: authorization: Bearer <token>");
  }
  if (given == end || given->second.empty()) return tokens_->claims(ask_, "");
  return tokens_->claims(ask_, "Bearer " + std::string(given->second));
}

Caller::Headers Gate::echo(const fl::ServerCallContext& context) const {
  Caller::Headers found;
  for (const std::string& name : echoed_) {
    const auto given = context.incoming_headers().find(name);
    if (given == context.incoming_headers().end()) continue;
    if (given->second.size() <= ECHO_BYTES_MAX) found.emplace_back(name, given->second);
  }
  return found;
}

void Gate::refuse(fl::FlightMethod method, const arrow::Status& why,
                  const std::string& peer) const {
  constexpr const char* names[] = {"INVALID", "HANDSHAKE", "LIST_FLIGHTS", "GET_FLIGHT_INFO",
                                   "GET_SCHEMA", "DO_GET", "DO_PUT", "DO_ACTION",
                                   "LIST_ACTIONS", "DO_EXCHANGE", "POLL_FLIGHT_INFO"};
  const auto at = static_cast<size_t>(method);
  ask_.refused(ask_.face.get(), at < std::size(names) ? names[at] : names[0], why.message(), peer);
}

Awaited* awaited_of(const fl::ServerCallContext& context) {
  Caller* caller = caller_of(context);
  return caller == nullptr ? nullptr : &caller->awaited();
}

arrow::Result<Claims> claims_of(const fl::ServerCallContext& context) {
  const Caller* caller = caller_of(context);
  if (caller == nullptr || !caller->claims()) {
    return fault("AuthError", "this call was not authenticated");
  }
  return *caller->claims();
}

}  // namespace fabric
