// Who is calling: every verb of the server passes here first.
//
// One job: check the token of every call (Handshake excepted, which has its own proof), bound the
// number of open calls, of all and of one client, and the time a client may take, give named
// headers back with the answer, and have the log say who was refused. A token's text is shown to
// Python once; what it decided is remembered until it expires. What a scope may do, the verbs
// decide.
#pragma once
#include <arrow/flight/server_auth.h>
#include <arrow/flight/server_middleware.h>
#include <arrow/result.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flight/asking.hpp"
#include "flight/calls.hpp"
#include "grpc/abi.hpp"

namespace fabric {

class Admission;
class Awaited;
class KnownTokens;
class Watch;

constexpr const char* CALLER = "fabric";  // the middleware's name

// Handshake from the server's side: the HMAC challenge of agents (fabric/flight/connections.py),
// and Flight's own BasicAuth for clients whose library knows nothing else. It carries the messages;
// the nonce, the checks and the tokens are Python's. An agent begins with its id, which is a name;
// a BasicAuth begins with the tag of a protobuf field.
class Handshake : public fl::ServerAuthHandler {
 public:
  explicit Handshake(const Asking& ask) : ask_(ask) {}

  arrow::Status Authenticate(const fl::ServerCallContext&, fl::ServerAuthSender* outgoing,
                             fl::ServerAuthReader* incoming) override;

  // Flight's own token header is not used here: the gate checks every call.
  arrow::Status IsValid(const fl::ServerCallContext&, const std::string&,
                        std::string* peer_identity) override;

 private:
  static constexpr size_t BYTES_MAX = 256, LOGIN_BYTES_MAX = 8192;
  static constexpr char USER = 0x12, PASSWORD = 0x1a;  // BasicAuth's fields

  arrow::Status run(fl::ServerAuthSender& outgoing, fl::ServerAuthReader& incoming);
  arrow::Status login(const std::string& bytes, std::string& token) const;
  static arrow::Status read(fl::ServerAuthReader& incoming, std::string& out, size_t most);
  static arrow::Status refused();

  Asking ask_;
};

class Gate : public fl::ServerMiddlewareFactory {
 public:
  Gate(const Asking& ask, std::shared_ptr<Inside> inside, std::shared_ptr<Watch> watch,
       std::shared_ptr<Admission> admission, const Limits& limits,
       std::vector<std::string> echoed);
  ~Gate() override;

  arrow::Status StartCall(const fl::CallInfo& info, const fl::ServerCallContext& context,
                          std::shared_ptr<fl::ServerMiddleware>* middleware) override;

 private:
  arrow::Result<Claims> check(const fl::ServerCallContext& context);
  std::vector<std::pair<std::string, std::string>> echo(const fl::ServerCallContext& context) const;
  void refuse(fl::FlightMethod method, const arrow::Status& why, const std::string& peer) const;

  Asking ask_;
  std::shared_ptr<Inside> inside_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<Admission> admission_;
  const Limits limits_;
  std::vector<std::string> echoed_;
  std::unique_ptr<KnownTokens> tokens_;
};

// The clock of a call; null when no gate was passed.
Awaited* awaited_of(const fl::ServerCallContext& context);

// The claims of a call; an AuthError when no gate checked it.
arrow::Result<Claims> claims_of(const fl::ServerCallContext& context);

}  // namespace fabric
