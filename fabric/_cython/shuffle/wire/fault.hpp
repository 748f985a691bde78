// Errors of the data plane: what `fabric.errors` is in Python, as an Arrow status.
//
// One job: kind, words and place into a status whose Flight detail holds an `ErrorDetail`, so that
// it travels as it is, and Cython turns it back into the same Python class (`raise_fault`).
// Which Flight code stands for which kind is told in `fabric/flight/errors.py`. Towards clients the
// detail is framed by a `google.rpc.Status`: Go's gRPC makes an internal error of anything else.
#pragma once
#include <arrow/status.h>

#include <optional>
#include <string>
#include <string_view>

namespace fabric {

struct Where {
  std::string job, node, task, agent;
};

// A status of a class in `fabric.errors`, for example fault("DataError", "the header is damaged").
arrow::Status fault(std::string_view kind, std::string_view message, const Where& at = {});

// A status of `ErrorDetail` bytes that somebody else made.
arrow::Status told(std::string detail);

// The status of an error that Python told: see `told` of `fabric/flight/errors.py`.
arrow::Status told_status(const std::string& text, const std::string& flight_kind,
                          const std::string& detail);

// The `ErrorDetail` bytes of a status; empty when it has none.
std::string detail_of(const arrow::Status& status);

// What an `ErrorDetail` says.
struct Said {
  std::string kind, message;
  Where at;

  arrow::Status status() const { return fault(kind, message, at); }
};

// What a status of ours says; nothing of any other.
std::optional<Said> said_by(const arrow::Status& status);

// A status of ours, one with a detail, as it leaves for a client.
arrow::Status framed(const arrow::Status& status);

// How the seconds of a bound are told: 0.3, 30.
std::string seconds_text(double seconds);

}  // namespace fabric
