// Session options of Flight clients: kept per token, bounded, gone when the token expires.
//
// One job: set, get, close. Fabric reads `fabric.tap` alone; clients of other systems expect more.
#pragma once
#include <arrow/flight/types.h>

#include <mutex>
#include <unordered_map>

#include "flight/asking.hpp"
#include "flight/text.hpp"
#include "wire/ticket.hpp"

namespace fabric {

// A session option and a call's header: what tickets of pipelined edges shall be.
constexpr const char* TAP_OPTION = "fabric.tap";

inline std::optional<TapMode> tap_mode_of(std::string_view text) {
  if (text == "lossy") return TapMode::LOSSY;
  if (text == "lossless") return TapMode::LOSSLESS;
  return std::nullopt;
}

class Sessions {
 public:
  static constexpr size_t SESSIONS_MAX = 4096, OPTIONS_MAX = 64;
  static constexpr size_t NAME_BYTES_MAX = 128, VALUE_BYTES_MAX = 4096;
  using Options = std::map<std::string, fl::SessionOptionValue>;

  // Options without a value are taken away; what can't be set is named in the answer.
  arrow::Result<fl::SetSessionOptionsResult> set(const Claims& claims, const Options& given,
                                                 double now_s) {
    fl::SetSessionOptionsResult answer;
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
      if (const auto wrong = refusal(session.options, name, value)) {
        answer.errors[name] = {*wrong};
      } else if (std::holds_alternative<std::monostate>(value)) {
        session.options.erase(name);
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

  TapMode tap_mode(const Claims& claims) const {
    std::lock_guard lock(mutex_);
    const auto session = sessions_.find(claims.key);
    if (session == sessions_.end()) return TapMode::LOSSY;
    const auto found = session->second.options.find(TAP_OPTION);
    if (found == session->second.options.end()) return TapMode::LOSSY;
    return *tap_mode_of(std::get<std::string>(found->second));
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

  static std::optional<Wrong> refusal(const Options& known, const std::string& name,
                                      const fl::SessionOptionValue& value) {
    if (name.empty() || name.size() > NAME_BYTES_MAX || !is_printable(name)) {
      return Wrong::kInvalidName;
    }
    if (name == TAP_OPTION && !std::holds_alternative<std::monostate>(value)) {
      const auto* mode = std::get_if<std::string>(&value);
      if (mode == nullptr || !tap_mode_of(*mode)) return Wrong::kInvalidValue;
    }
    size_t n_bytes = 0;
    if (const auto* text = std::get_if<std::string>(&value)) n_bytes = text->size();
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& text : *texts) n_bytes += text.size() + 8;
    }
    if (n_bytes > VALUE_BYTES_MAX) return Wrong::kInvalidValue;
    const bool more = !known.contains(name) && !std::holds_alternative<std::monostate>(value);
    if (more && known.size() >= OPTIONS_MAX) return Wrong::kError;
    return std::nullopt;
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
};

}  // namespace fabric
