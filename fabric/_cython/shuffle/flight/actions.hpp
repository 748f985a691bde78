// DoAction: Flight's own actions here, the others in Python (fabric/flight/actions.py).
//
// One job: cancel, renew and sessions as Flight defines them; what a stranger sends is parsed by
// Flight, and its tickets are verified as DoGet's are.
#pragma once
#include "flight/listing.hpp"
#include "flight/sessions.hpp"

namespace fabric {

class Actions {
 public:
  static constexpr int64_t BODY_BYTES_MAX = 4 << 20;

  Actions(const Asking& ask, const Finder& finder, const Listing& listing)
      : ask_(ask), finder_(finder), listing_(listing) {}

  arrow::Result<std::vector<fl::ActionType>> offered(const Claims& claims) const {
    std::vector<std::pair<std::string, std::string>> names;
    ARROW_RETURN_NOT_OK(ask_.offered(ask_.face.get(), claims, names));
    std::vector<fl::ActionType> all;
    for (auto& [name, text] : names) all.emplace_back(std::move(name), std::move(text));
    if (claims.allows(Scope::SUBMIT)) all.push_back(fl::ActionType::kCancelFlightInfo);
    all.push_back(fl::ActionType::kRenewFlightEndpoint);
    all.push_back(fl::ActionType::kSetSessionOptions);
    all.push_back(fl::ActionType::kGetSessionOptions);
    all.push_back(fl::ActionType::kCloseSession);
    return all;
  }

  TapMode tap_mode(const Claims& claims) const { return sessions_.tap_mode(claims); }

  // The one answer of an action.
  arrow::Result<std::string> run(const Claims& claims, const fl::Action& action) {
    if (action.body != nullptr && action.body->size() > BODY_BYTES_MAX) {
      return fault("ConfigError", "the body of an action has at most " +
                                      std::to_string(BODY_BYTES_MAX) + " bytes");
    }
    const std::string body = action.body == nullptr ? std::string() : action.body->ToString();
    if (action.type == fl::ActionType::kCancelFlightInfo.type) return cancel(claims, body);
    if (action.type == fl::ActionType::kRenewFlightEndpoint.type) return renew(body);
    if (action.type == fl::ActionType::kSetSessionOptions.type) return set_options(claims, body);
    if (action.type == fl::ActionType::kGetSessionOptions.type) {
      return fl::GetSessionOptionsResult(sessions_.get(claims)).SerializeToString();
    }
    if (action.type == fl::ActionType::kCloseSession.type) {
      return fl::CloseSessionResult(sessions_.close(claims)).SerializeToString();
    }
    std::string answer;
    ARROW_RETURN_NOT_OK(ask_.act(ask_.face.get(), claims, action.type, body, answer));
    return answer;
  }

 private:
  template <class Request>
  static arrow::Result<Request> parsed(const std::string& body, const char* name) {
    auto request = Request::Deserialize(body);
    if (request.ok()) return request;
    return fault("ConfigError",
                 std::string("the body of ") + name + " must be a " + name + "Request of Flight");
  }

  // Cancels the job whose exchange the info names.
  arrow::Result<std::string> cancel(const Claims& claims, const std::string& body) const {
    ARROW_RETURN_NOT_OK(claims.require(Scope::SUBMIT, "action CancelFlightInfo"));
    ARROW_ASSIGN_OR_RAISE(const auto request,
                          parsed<fl::CancelFlightInfoRequest>(body, "CancelFlightInfo"));
    if (request.info == nullptr) {
      return fault("ConfigError", "the body of CancelFlightInfo names no FlightInfo");
    }
    ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(request.info->descriptor()));
    fl::CancelStatus answer = fl::CancelStatus::kNotCancellable;
    if (const auto* job = std::get_if<JobPath>(&path)) {
      uint32_t state = 0;
      ARROW_RETURN_NOT_OK(ask_.cancel(ask_.face.get(), job->job, state));
      if (state == JOB_CANCELLED) answer = fl::CancelStatus::kCancelled;
      if (state <= JOB_RUNNING) answer = fl::CancelStatus::kCancelling;
    }
    return fl::CancelFlightInfoResult(answer).SerializeToString();
  }

  // A new ticket for the same rows, never beyond the time they are dropped.
  arrow::Result<std::string> renew(const std::string& body) const {
    ARROW_ASSIGN_OR_RAISE(auto request,
                          parsed<fl::RenewFlightEndpointRequest>(body, "RenewFlightEndpoint"));
    fl::FlightEndpoint& endpoint = request.endpoint;
    const double now_s = ask_.wall_s();
    ARROW_ASSIGN_OR_RAISE(const Ticket ticket,
                          verify_ticket(listing_.ticket_key(), endpoint.ticket.ticket, now_s));
    double expires_s = now_s + listing_.ticket_s();
    if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr edge, finder_.edge_numbered(partition->job,
                                                                      partition->edge,
                                                                      partition->producers));
      if (edge->release_s > 0) expires_s = std::min(expires_s, edge->release_s);
    } else {
      ARROW_RETURN_NOT_OK(finder_.dataset(std::get<DatasetTicket>(ticket).name).status());
    }
    endpoint.ticket.ticket = make_ticket(listing_.ticket_key(), ticket, expires_s);
    endpoint.expiration_time = timestamp(expires_s);
    return endpoint.SerializeToString();
  }

  arrow::Result<std::string> set_options(const Claims& claims, const std::string& body) {
    ARROW_ASSIGN_OR_RAISE(const auto request,
                          parsed<fl::SetSessionOptionsRequest>(body, "SetSessionOptions"));
    ARROW_ASSIGN_OR_RAISE(const auto answer,
                          sessions_.set(claims, request.session_options, ask_.wall_s()));
    return answer.SerializeToString();
  }

  Asking ask_;
  Finder finder_;
  Listing listing_;
  Sessions sessions_;
};

}  // namespace fabric
