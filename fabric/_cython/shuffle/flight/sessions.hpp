// Session options of Flight clients: kept per token, bounded, gone when the token expires.
//
// One job: set, get, close. Fabric reads those of `view.hpp` alone; clients of other systems expect
// more.
#pragma once
#include <arrow/flight/types.h>

#include <mutex>
#include <unordered_map>

#include "flight/asking.hpp"
#include "flight/text.hpp"
#include "flight/view.hpp"

namespace fabric {

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

}  // namespace fabric
