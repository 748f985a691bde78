// The HMAC challenge of Handshake, from the server's side (fabric/flight/handshake.py).
//
// One job: carry its three messages; the nonce, the check and the token are Python's.
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
  arrow::Status run(fl::ServerAuthSender& outgoing, fl::ServerAuthReader& incoming) {
    std::string agent, nonce, proof, token;
    ARROW_RETURN_NOT_OK(read(incoming, agent));
    ARROW_RETURN_NOT_OK(ask_.challenge(ask_.face.get(), agent, nonce));
    ARROW_RETURN_NOT_OK(outgoing.Write(nonce));
    ARROW_RETURN_NOT_OK(read(incoming, proof));
    ARROW_RETURN_NOT_OK(ask_.prove(ask_.face.get(), agent, nonce, proof, token));
    return outgoing.Write(token);
  }

  static arrow::Status read(fl::ServerAuthReader& incoming, std::string& out) {
    if (incoming.Read(&out).ok() && out.size() <= 256) return arrow::Status::OK();
    return fault("AuthError", "the handshake is not one of this fabric");
  }

  Asking ask_;
};

}  // namespace fabric
