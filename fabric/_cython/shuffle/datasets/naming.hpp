// Errors of puts on their way to a client: which dataset and which agent they are about.
//
// One job: the same error with what it lacks. Anything that `fault` did not make stays as it is.
#pragma once
#include <optional>

#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {

// What a status made by `fault` says.
struct Said {
  std::string kind, message;
  Where at;

  arrow::Status status() const { return fault(kind, message, at); }
};

inline std::optional<Said> said_by(const arrow::Status& status) {
  const std::string detail = detail_of(status);
  if (status.ok() || detail.empty()) return std::nullopt;
  Said said;
  ProtoReader in(detail);
  while (in.next()) {
    switch (in.field()) {
      case 1: said.kind = in.text(); break;
      case 2: said.message = in.text(); break;
      case 3: said.at.job = in.text(); break;
      case 4: said.at.node = in.text(); break;
      case 5: said.at.task = in.text(); break;
      case 6: said.at.agent = in.text(); break;
      default: break;
    }
  }
  return said;
}

// An error of an owner, which names it by its id and not by its address.
inline arrow::Status at_owner(const arrow::Status& status, const std::string& owner) {
  auto said = said_by(status);
  if (!said) return status;
  said->at.agent = owner;
  return said->status();
}

// An error of a put to `dataset` by way of `agent`.
inline arrow::Status of_put(const arrow::Status& status, const std::string& dataset,
                            const std::string& agent) {
  auto said = said_by(status);
  if (!said) return status;
  if (said->at.agent.empty()) said->at.agent = agent;
  const bool named = said->message.find(quoted(dataset)) != std::string::npos ||
                     said->message.find("put " + dataset + "/") != std::string::npos;
  if (!named) said->message = "put to dataset " + quoted(dataset) + ": " + said->message;
  return said->status();
}

}  // namespace fabric
