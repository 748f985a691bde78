// Errors of the data plane: what `fabric.errors` is in Python, as an Arrow status.
//
// One job: kind, words and place into a status whose Flight detail holds an `ErrorDetail`, so that
// it travels as it is, and Cython turns it back into the same Python class (`raise_fault`).
// Which Flight code stands for which kind is told in `fabric/flight/errors.py`. Towards clients the
// detail is framed by a `google.rpc.Status`: Go's gRPC makes an internal error of anything else.
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

// The status of an error that Python told: see `told` of `fabric/flight/errors.py`.
inline arrow::Status told_status(const std::string& text, const std::string& flight_kind,
                                 const std::string& detail) {
  return arrow::Status(
      arrow::StatusCode::IOError, text,
      std::make_shared<arrow::flight::FlightStatusDetail>(flight_code(flight_kind), detail));
}

// gRPC's number of a Flight code, as Flight sends it.
inline uint32_t grpc_code(arrow::flight::FlightStatusCode code) {
  using Code = arrow::flight::FlightStatusCode;
  switch (code) {
    case Code::Internal: return 13;
    case Code::TimedOut: return 4;
    case Code::Cancelled: return 1;
    case Code::Unauthenticated: return 16;
    case Code::Unauthorized: return 7;
    case Code::Unavailable: return 14;
    default: return 2;
  }
}

constexpr const char* DETAIL_TYPE = "type.googleapis.com/fabric.control.v1.ErrorDetail";
constexpr char FRAME_CODE = 0x08;  // a Status begins with its code, an ErrorDetail never does

// The detail in a frame, or as it is.
inline std::string unframed(std::string extra) {
  if (!extra.starts_with(FRAME_CODE)) return extra;
  std::string_view any;
  ProtoReader frame(extra);
  while (frame.next()) {
    if (frame.field() == 3) any = frame.bytes();
  }
  std::string_view detail;
  ProtoReader in(any);
  while (in.next()) {
    if (in.field() == 2) detail = in.bytes();
  }
  return std::string(frame.ok() && in.ok() ? detail : "");
}

// The `ErrorDetail` bytes of a status; empty when it has none.
inline std::string detail_of(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  return detail == nullptr ? std::string() : unframed(detail->extra_info());
}

// A status of ours as it leaves for a client.
inline arrow::Status framed(const arrow::Status& status) {
  const auto known = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  ProtoWriter any, frame;
  any.text(1, DETAIL_TYPE);
  any.message(2, detail_of(status));
  frame.number(1, grpc_code(known->code()));
  frame.text(2, status.message());
  frame.message(3, any.bytes());
  return arrow::Status(status.code(), status.message(),
                       std::make_shared<arrow::flight::FlightStatusDetail>(known->code(),
                                                                           frame.take()));
}

}  // namespace fabric
