// Errors of the data plane: what `fabric.errors` is in Python, as an Arrow status.
//
// One job: kind, words and place into a status whose Flight detail holds an `ErrorDetail`, so that
// it travels as it is, and Cython turns it back into the same Python class (`raise_fault`).
// Which Flight code stands for which kind is told in `fabric/flight/errors.py`.
#pragma once
#include <arrow/flight/types.h>
#include <arrow/status.h>

#include <cstdio>
#include <memory>
#include <string>

#include "proto.hpp"

namespace fabric {

// How the seconds of a bound are told: 0.3, 30.
inline std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

struct Where {
  std::string job, node, task, agent;
};

inline arrow::flight::FlightStatusCode flight_code(std::string_view kind) {
  using Code = arrow::flight::FlightStatusCode;
  if (kind == "ScopeError") return Code::Unauthorized;
  if (kind == "AuthError") return Code::Unauthenticated;
  if (kind == "InternalError") return Code::Internal;
  if (kind == "PeerLostError" || kind == "PartitionLostError") return Code::Unavailable;
  return Code::Failed;
}

// A status of a class in `fabric.errors`, for example fault("DataError", "the header is damaged").
inline arrow::Status fault(std::string_view kind, std::string_view message, const Where& at = {}) {
  ProtoWriter detail;
  detail.text(1, kind == "ScopeError" ? "AuthError" : kind);
  detail.text(2, message);
  detail.text(3, at.job);
  detail.text(4, at.node);
  detail.text(5, at.task);
  detail.text(6, at.agent);
  return arrow::Status(arrow::StatusCode::IOError, std::string(kind) + ": " + std::string(message),
                       std::make_shared<arrow::flight::FlightStatusDetail>(flight_code(kind),
                                                                           detail.take()));
}

// A status of `ErrorDetail` bytes that somebody else made.
inline arrow::Status told(std::string detail) {
  ProtoReader in(detail);
  std::string kind = "InternalError", message;
  while (in.next()) {
    if (in.field() == 1) kind = in.text();
    if (in.field() == 2) message = in.text();
  }
  return arrow::Status(arrow::StatusCode::IOError, kind + ": " + message,
                       std::make_shared<arrow::flight::FlightStatusDetail>(flight_code(kind),
                                                                           std::move(detail)));
}

// The `ErrorDetail` bytes of a status; empty when it has none.
inline std::string detail_of(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  return detail == nullptr ? std::string() : detail->extra_info();
}

}  // namespace fabric
