// Handshake from the server's side: the HMAC challenge of agents (fabric/flight/handshake.py), and
// Flight's own BasicAuth for clients whose library knows nothing else.
//
// One job: carry the messages; the nonce, the checks and the tokens are Python's. An agent begins
// with its id, which is a name; a BasicAuth begins with the tag of a protobuf field.
#pragma once
#include <arrow/flight/server_auth.h>

#include "flight/asking.hpp"

namespace fabric {

class Handshake : public fl::ServerAuthHandler {
 public:
  explicit Handshake(const Asking& ask) : ask_(ask) {}

  arrow::Status Authenticate(const fl::ServerCallContext&, fl::ServerAuthSender* outgoing,
                             fl::ServerAuthReader* incoming) override {
    return ask_.outward(run(*outgoing, *incoming));
  }

  // Flight's own token header is not used here: the gate checks every call.
  arrow::Status IsValid(const fl::ServerCallContext&, const std::string&,
                        std::string* peer_identity) override {
    peer_identity->clear();
    return arrow::Status::OK();
  }

 private:
  static constexpr size_t BYTES_MAX = 256, LOGIN_BYTES_MAX = 8192;
  static constexpr char USER = 0x12, PASSWORD = 0x1a;  // BasicAuth's fields

  arrow::Status run(fl::ServerAuthSender& outgoing, fl::ServerAuthReader& incoming) {
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

  arrow::Status login(const std::string& bytes, std::string& token) const {
    fl::BasicAuth given;
    if (!fl::BasicAuth::Deserialize(bytes, &given).ok()) return refused();
    return ask_.login(ask_.face.get(), given.username, given.password, token);
  }

  static arrow::Status read(fl::ServerAuthReader& incoming, std::string& out, size_t most) {
    return incoming.Read(&out).ok() && out.size() <= most ? arrow::Status::OK() : refused();
  }

  static arrow::Status refused() {
    return fault("AuthError", "the handshake is not one of this fabric");
  }

  Asking ask_;
};

}  // namespace fabric
