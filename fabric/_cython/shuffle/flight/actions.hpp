// DoAction: Flight's own actions here, the others in Python (fabric/flight/actions.py).
//
// One job: cancel, renew and sessions as Flight defines them; what a stranger sends is parsed by
// Flight, and its tickets are verified as DoGet's are.
#pragma once
#include <set>

#include "flight/listing.hpp"
#include "flight/sessions.hpp"

namespace fabric {

class Actions {
 public:
  static constexpr int64_t BODY_BYTES_MAX = 4 << 20;

  // Of Flight's own actions those `own` names are there; by default all.
  Actions(const Asking& ask, const Finder& finder, const Listing& listing,
          const std::vector<std::string>& own)
      : ask_(ask), finder_(finder), listing_(listing), own_(own.begin(), own.end()),
        sessions_(ask) {
    if (!own_.empty()) return;
    for (const fl::ActionType& type : standard()) own_.insert(type.type);
  }

  arrow::Result<std::vector<fl::ActionType>> offered(const Claims& claims) const {
    std::vector<std::pair<std::string, std::string>> names;
    ARROW_RETURN_NOT_OK(ask_.offered(ask_.face.get(), claims, names));
    std::vector<fl::ActionType> all;
    for (auto& [name, text] : names) all.emplace_back(std::move(name), std::move(text));
    for (const fl::ActionType& type : standard()) {
      const bool scoped = type.type == fl::ActionType::kCancelFlightInfo.type;
      if (scoped && !claims.allows(Scope::SUBMIT)) continue;
      if (own_.contains(type.type)) all.push_back(type);
    }
    return all;
  }

  // `view` as the caller's session changes it.
  View view(const Claims& claims, const View& view) const { return sessions_.view(claims, view); }

  // The one answer of an action.
  arrow::Result<std::string> run(const Claims& claims, const fl::Action& action) {
    if (action.body != nullptr && action.body->size() > BODY_BYTES_MAX) {
      return fault("ConfigError", "the body of an action has at most " +
                                      std::to_string(BODY_BYTES_MAX) + " bytes");
    }
    const std::string body = action.body == nullptr ? std::string() : action.body->ToString();
    if (own_.contains(action.type)) return run_own(claims, action.type, body);
    std::string answer;
    ARROW_RETURN_NOT_OK(ask_.act(ask_.face.get(), claims, action.type, body, answer));
    return answer;
  }

 private:
  static std::vector<fl::ActionType> standard() {
    using Type = fl::ActionType;
    return {Type::kCancelFlightInfo, Type::kRenewFlightEndpoint, Type::kSetSessionOptions,
            Type::kGetSessionOptions, Type::kCloseSession};
  }

  arrow::Result<std::string> run_own(const Claims& claims, const std::string& type,
                                     const std::string& body) {
    if (type == fl::ActionType::kCancelFlightInfo.type) return cancel(claims, body);
    if (type == fl::ActionType::kRenewFlightEndpoint.type) return renew(body);
    if (type == fl::ActionType::kSetSessionOptions.type) return set_options(claims, body);
    if (type == fl::ActionType::kGetSessionOptions.type) {
      return fl::GetSessionOptionsResult(sessions_.get(claims)).SerializeToString();
    }
    return fl::CloseSessionResult(sessions_.close(claims)).SerializeToString();
  }

  template <class Request>
  static arrow::Result<Request> parsed(const std::string& body, const char* name) {
    auto request = Request::Deserialize(body);
    if (request.ok()) return request;
    return fault("ConfigError",
                 std::string("the body of ") + name + " must be a " + name + "Request of Flight");
  }

  // Cancels the jobs whose exchanges the info names.
  arrow::Result<std::string> cancel(const Claims& claims, const std::string& body) const {
    ARROW_RETURN_NOT_OK(claims.require(Scope::SUBMIT, "action CancelFlightInfo"));
    ARROW_ASSIGN_OR_RAISE(const auto request,
                          parsed<fl::CancelFlightInfoRequest>(body, "CancelFlightInfo"));
    if (request.info == nullptr) {
      return fault("ConfigError", "the body of CancelFlightInfo names no FlightInfo");
    }
    ARROW_ASSIGN_OR_RAISE(const std::set<std::string> jobs, jobs_of(*request.info));
    fl::CancelStatus answer =
        jobs.empty() ? fl::CancelStatus::kNotCancellable : fl::CancelStatus::kCancelled;
    for (const std::string& job : jobs) {
      uint32_t state = 0;
      ARROW_RETURN_NOT_OK(ask_.cancel(ask_.face.get(), job, state));
      if (state <= JOB_RUNNING) {
        answer = fl::CancelStatus::kCancelling;
      } else if (state != JOB_CANCELLED && answer == fl::CancelStatus::kCancelled) {
        answer = fl::CancelStatus::kNotCancellable;
      }
    }
    return fl::CancelFlightInfoResult(answer).SerializeToString();
  }

  // A path names one itself; for a command its tickets do.
  arrow::Result<std::set<std::string>> jobs_of(const fl::FlightInfo& info) const {
    std::set<std::string> jobs;
    if (info.descriptor().type != fl::FlightDescriptor::CMD) {
      ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(info.descriptor()));
      if (const auto* job = std::get_if<JobPath>(&path)) jobs.insert(job->job);
      return jobs;
    }
    for (const fl::FlightEndpoint& endpoint : info.endpoints()) {
      ARROW_ASSIGN_OR_RAISE(const Ticket ticket,
                            verify_ticket(listing_.ticket_key(), endpoint.ticket.ticket,
                                          ask_.wall_s()));
      if (const auto* part = std::get_if<PartitionTicket>(&ticket)) jobs.insert(part->job);
    }
    return jobs;
  }

  // A new ticket for the same rows.
  arrow::Result<std::string> renew(const std::string& body) const {
    ARROW_ASSIGN_OR_RAISE(auto request,
                          parsed<fl::RenewFlightEndpointRequest>(body, "RenewFlightEndpoint"));
    fl::FlightEndpoint& endpoint = request.endpoint;
    ARROW_ASSIGN_OR_RAISE(const Ticket ticket,
                          verify_ticket(listing_.ticket_key(), endpoint.ticket.ticket,
                                        ask_.wall_s()));
    double release_s = 0;
    if (const auto* partition = std::get_if<PartitionTicket>(&ticket)) {
      ARROW_ASSIGN_OR_RAISE(const EdgePtr edge, finder_.edge_numbered(partition->job,
                                                                      partition->edge,
                                                                      partition->producers));
      release_s = edge->release_s;
    } else {
      ARROW_RETURN_NOT_OK(finder_.dataset(std::get<DatasetTicket>(ticket).name).status());
    }
    listing_.sign(endpoint, ticket, release_s);
    return endpoint.SerializeToString();
  }

  arrow::Result<std::string> set_options(const Claims& claims, const std::string& body) {
    ARROW_ASSIGN_OR_RAISE(const auto request,
                          parsed<fl::SetSessionOptionsRequest>(body, "SetSessionOptions"));
    ARROW_ASSIGN_OR_RAISE(const auto answer,
                          sessions_.set(claims, request.session_options));
    return answer.SerializeToString();
  }

  Asking ask_;
  Finder finder_;
  Listing listing_;
  std::set<std::string> own_;
  Sessions sessions_;
};

}  // namespace fabric
