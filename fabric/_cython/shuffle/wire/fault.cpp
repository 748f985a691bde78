// Errors of the data plane: their bytes, and how Flight carries them.
#include "wire/fault.hpp"

#include <arrow/flight/types.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "wire/proto.hpp"

namespace fabric {
namespace {

constexpr const char* DETAIL_TYPE = "type.googleapis.com/fabric.control.v1.ErrorDetail";
constexpr char FRAME_CODE = 0x08;  // a Status begins with its code, an ErrorDetail never does

arrow::flight::FlightStatusCode flight_code(std::string_view kind) {
  using Code = arrow::flight::FlightStatusCode;
  if (kind == "ScopeError") return Code::Unauthorized;
  if (kind == "AuthError") return Code::Unauthenticated;
  if (kind == "InternalError") return Code::Internal;
  if (kind == "PeerLostError" || kind == "PartitionLostError") return Code::Unavailable;
  return Code::Failed;
}

// gRPC's number of a Flight code, as Flight sends it.
uint32_t grpc_code(arrow::flight::FlightStatusCode code) {
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

arrow::Status with_detail(const std::string& words, arrow::flight::FlightStatusCode code,
                          std::string detail) {
  return arrow::Status(
      arrow::StatusCode::IOError, words,
      std::make_shared<arrow::flight::FlightStatusDetail>(code, std::move(detail)));
}

// The bytes of a field; none when it is not there, or the message is damaged.
std::string_view bytes_in(std::string_view message, uint32_t field) {
  std::string_view found;
  const bool whole = read_fields(message, [&](ProtoReader& in) {
    if (in.field() == field) found = in.bytes();
  });
  return whole ? found : std::string_view();
}

// The detail in a frame, or as it is.
std::string unframed(std::string extra) {
  if (!extra.starts_with(FRAME_CODE)) return extra;
  return std::string(bytes_in(bytes_in(extra, 3), 2));
}

Said said_in(std::string_view detail) {
  Said said;
  read_fields(detail, [&](ProtoReader& in) {
    switch (in.field()) {
      case 1: said.kind = in.text(); break;
      case 2: said.message = in.text(); break;
      case 3: said.at.job = in.text(); break;
      case 4: said.at.node = in.text(); break;
      case 5: said.at.task = in.text(); break;
      case 6: said.at.agent = in.text(); break;
      default: break;
    }
  });
  return said;
}

}  // namespace

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

arrow::Status fault(std::string_view kind, std::string_view message, const Where& at) {
  ProtoWriter detail;
  detail.text(1, kind == "ScopeError" ? "AuthError" : kind);
  detail.text(2, message);
  detail.text(3, at.job);
  detail.text(4, at.node);
  detail.text(5, at.task);
  detail.text(6, at.agent);
  return with_detail(std::string(kind) + ": " + std::string(message), flight_code(kind),
                     detail.take());
}

arrow::Status told(std::string detail) {
  Said said = said_in(detail);
  if (said.kind.empty()) said.kind = "InternalError";
  return with_detail(said.kind + ": " + said.message, flight_code(said.kind), std::move(detail));
}

arrow::Status told_status(const std::string& text, const std::string& flight_kind,
                          const std::string& detail) {
  return with_detail(text, flight_code(flight_kind), detail);
}

std::string detail_of(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  return detail == nullptr ? std::string() : unframed(detail->extra_info());
}

std::optional<Said> said_by(const arrow::Status& status) {
  const std::string detail = detail_of(status);
  if (status.ok() || detail.empty()) return std::nullopt;
  return said_in(detail);
}

arrow::Status framed(const arrow::Status& status) {
  const auto known = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  ProtoWriter any, frame;
  any.text(1, DETAIL_TYPE);
  any.message(2, detail_of(status));
  frame.number(1, grpc_code(known->code()));
  frame.text(2, status.message());
  frame.message(3, any.bytes());
  return status.WithDetail(
      std::make_shared<arrow::flight::FlightStatusDetail>(known->code(), frame.take()));
}

}  // namespace fabric
