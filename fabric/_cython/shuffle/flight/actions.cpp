// Flight's own actions, and the sessions that some of them set: see `actions.hpp`.
//
// One job: each from its request to its result.
#include "flight/actions.hpp"

#include <arrow/buffer.h>

#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "flight/directory.hpp"
#include "flight/paths.hpp"
#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {

// Session options of Flight clients: kept per token, bounded, gone when the token expires. Fabric
// reads those of `VIEW_OPTIONS` alone; clients of other systems expect more.
class Sessions {
 public:
  static constexpr size_t SESSIONS_MAX = 4096, OPTIONS_MAX = 64;
  static constexpr size_t NAME_BYTES_MAX = 128, VALUE_BYTES_MAX = 4096;
  using Options = std::map<std::string, fl::SessionOptionValue>;

  explicit Sessions(const Asking& ask) : ask_(ask) {}

  // Options without a value are taken away; what can't be set is named in the answer.
  arrow::Result<fl::SetSessionOptionsResult> set(const Claims& claims, const Options& given) {
    const double now_s = ask_.wall_s();
    fl::SetSessionOptionsResult answer;
    for (const auto& [name, value] : given) {
      ARROW_ASSIGN_OR_RAISE(const auto wrong, refusal(name, value));
      if (wrong) answer.errors[name] = {*wrong};
    }
    std::lock_guard lock(mutex_);
    if (!sessions_.contains(claims.key) && sessions_.size() >= SESSIONS_MAX) {
      std::erase_if(sessions_, [&](const auto& s) { return now_s > s.second.expires_s + SKEW_S; });
      if (sessions_.size() >= SESSIONS_MAX) {
        return fault("PeerLostError", "this agent already keeps " + std::to_string(SESSIONS_MAX) +
                                          " sessions; try again later");
      }
    }
    Session& session = sessions_[claims.key];
    session.expires_s = claims.expires_s;
    for (const auto& [name, value] : given) {
      if (answer.errors.contains(name)) continue;
      if (std::holds_alternative<std::monostate>(value)) {
        session.options.erase(name);
      } else if (!session.options.contains(name) && session.options.size() >= OPTIONS_MAX) {
        answer.errors[name] = {Wrong::kError};
      } else {
        session.options[name] = value;
      }
    }
    return answer;
  }

  Options get(const Claims& claims) const {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(claims.key);
    return found == sessions_.end() ? Options() : found->second.options;
  }

  // `view` as the session's options change it.
  View view(const Claims& claims, View view) const {
    std::lock_guard lock(mutex_);
    const auto session = sessions_.find(claims.key);
    if (session == sessions_.end()) return view;
    for (const ViewOption& option : VIEW_OPTIONS) {
      const auto found = session->second.options.find(option.name);
      if (found == session->second.options.end()) continue;
      option.set(view, std::get<std::string>(found->second));  // its word was checked
    }
    return view;
  }

  fl::CloseSessionStatus close(const Claims& claims) {
    std::lock_guard lock(mutex_);
    return sessions_.erase(claims.key) > 0 ? fl::CloseSessionStatus::kClosed
                                           : fl::CloseSessionStatus::kNotClosable;
  }

 private:
  struct Session {
    Options options;
    double expires_s = 0;
  };
  using Wrong = fl::SetSessionOptionErrorValue;

  // What is wrong with an option, whatever the session holds.
  arrow::Result<std::optional<Wrong>> refusal(const std::string& name,
                                              const fl::SessionOptionValue& value) const {
    if (name.empty() || name.size() > NAME_BYTES_MAX || !is_printable(name)) {
      return Wrong::kInvalidName;
    }
    const auto* text = std::get_if<std::string>(&value);
    size_t n_bytes = text == nullptr ? 0 : text->size();
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& one : *texts) n_bytes += one.size() + 8;
    }
    if (n_bytes > VALUE_BYTES_MAX) return Wrong::kInvalidValue;
    const bool taken_away = std::holds_alternative<std::monostate>(value);
    if (name.starts_with(OWN_OPTIONS)) {
      const ViewOption* option = view_option(name);
      View view;
      if (option == nullptr) return Wrong::kInvalidName;
      if (taken_away || (text != nullptr && option->set(view, *text))) return std::nullopt;
      return Wrong::kInvalidValue;
    }
    if (ask_.option == nullptr || taken_away) return std::nullopt;
    return told(name, text == nullptr ? std::string() : *text);
  }

  arrow::Result<std::optional<Wrong>> told(const std::string& name, const std::string& text) const {
    Verdict verdict = Verdict::GOOD;
    ARROW_RETURN_NOT_OK(ask_.option(ask_.face.get(), name, text, verdict));
    if (verdict == Verdict::GOOD) return std::nullopt;
    return verdict == Verdict::NAME ? Wrong::kInvalidName : Wrong::kInvalidValue;
  }

  Asking ask_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
};

namespace {

std::vector<fl::ActionType> standard_actions() {
  using Type = fl::ActionType;
  return {Type::kCancelFlightInfo, Type::kRenewFlightEndpoint, Type::kSetSessionOptions,
          Type::kGetSessionOptions, Type::kCloseSession};
}

template <class Request>
arrow::Result<Request> request_in(const std::string& body, const char* name) {
  auto request = Request::Deserialize(body);
  if (request.ok()) return request;
  return fault("ConfigError",
               std::string("the body of ") + name + " must be a " + name + "Request of Flight");
}

}  // namespace

Actions::Actions(const Asking& ask, const Finder& finder, const Listing& listing,
                 const std::vector<std::string>& own)
    : ask_(ask), finder_(finder), listing_(listing), own_(own.begin(), own.end()),
      sessions_(std::make_unique<Sessions>(ask)) {
  if (!own_.empty()) return;
  for (const fl::ActionType& type : standard_actions()) own_.insert(type.type);
}

Actions::~Actions() = default;

arrow::Result<std::vector<fl::ActionType>> Actions::offered(const Claims& claims) const {
  std::vector<std::pair<std::string, std::string>> names;
  ARROW_RETURN_NOT_OK(ask_.offered(ask_.face.get(), claims, names));
  std::vector<fl::ActionType> all;
  for (auto& [name, text] : names) all.emplace_back(std::move(name), std::move(text));
  for (const fl::ActionType& type : standard_actions()) {
    const bool scoped = type.type == fl::ActionType::kCancelFlightInfo.type;
    if (scoped && !claims.allows(Scope::SUBMIT)) continue;
    if (own_.contains(type.type)) all.push_back(type);
  }
  return all;
}

View Actions::view(const Claims& claims, const View& view) const {
  return sessions_->view(claims, view);
}

arrow::Result<std::string> Actions::run(const Claims& claims, const fl::Action& action) {
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

arrow::Result<std::string> Actions::run_own(const Claims& claims, const std::string& type,
                                            const std::string& body) {
  if (type == fl::ActionType::kCancelFlightInfo.type) return cancel(claims, body);
  if (type == fl::ActionType::kRenewFlightEndpoint.type) return renew(body);
  if (type == fl::ActionType::kSetSessionOptions.type) return set_options(claims, body);
  if (type == fl::ActionType::kGetSessionOptions.type) {
    return fl::GetSessionOptionsResult(sessions_->get(claims)).SerializeToString();
  }
  return fl::CloseSessionResult(sessions_->close(claims)).SerializeToString();
}

arrow::Result<std::string> Actions::cancel(const Claims& claims, const std::string& body) const {
  ARROW_RETURN_NOT_OK(claims.require(Scope::SUBMIT, "action CancelFlightInfo"));
  ARROW_ASSIGN_OR_RAISE(const auto request,
                        request_in<fl::CancelFlightInfoRequest>(body, "CancelFlightInfo"));
  if (request.info == nullptr) {
    return fault("ConfigError", "the body of CancelFlightInfo names no FlightInfo");
  }
  ARROW_ASSIGN_OR_RAISE(const std::set<std::string> jobs, jobs_of(*request.info));
  fl::CancelStatus answer =
      jobs.empty() ? fl::CancelStatus::kNotCancellable : fl::CancelStatus::kCancelled;
  for (const std::string& job : jobs) {
    uint32_t state = 0;
    ARROW_RETURN_NOT_OK(ask_.cancel(ask_.face.get(), claims, job, state));
    if (state <= JOB_RUNNING) {
      answer = fl::CancelStatus::kCancelling;
    } else if (state != JOB_CANCELLED && answer == fl::CancelStatus::kCancelled) {
      answer = fl::CancelStatus::kNotCancellable;
    }
  }
  return fl::CancelFlightInfoResult(answer).SerializeToString();
}

arrow::Result<std::set<std::string>> Actions::jobs_of(const fl::FlightInfo& info) const {
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

arrow::Result<std::string> Actions::renew(const std::string& body) const {
  ARROW_ASSIGN_OR_RAISE(auto request,
                        request_in<fl::RenewFlightEndpointRequest>(body, "RenewFlightEndpoint"));
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

arrow::Result<std::string> Actions::set_options(const Claims& claims, const std::string& body) {
  ARROW_ASSIGN_OR_RAISE(const auto request,
                        request_in<fl::SetSessionOptionsRequest>(body, "SetSessionOptions"));
  ARROW_ASSIGN_OR_RAISE(const auto answer,
                        sessions_->set(claims, request.session_options));
  return answer.SerializeToString();
}

}  // namespace fabric
