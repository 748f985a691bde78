// What a token's claims allow, and which errors may leave the server: see `asking.hpp`.
//
// One job: an error of ours leaves in a frame and with few words; any other is logged here.
#include "flight/asking.hpp"

#include <arrow/status.h>

#include <chrono>

#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr size_t WORDS_BYTES_MAX = 1000;

// Flight sends the words three times, as headers, of which clients take 8 or 16 KB; the detail
// has them all.
arrow::Status with_few_words(const arrow::Status& status) {
  if (status.message().size() <= WORDS_BYTES_MAX) return status;
  size_t n_bytes = WORDS_BYTES_MAX;
  while (n_bytes > 0 && (status.message()[n_bytes] & 0xC0) == 0x80) --n_bytes;
  return arrow::Status(status.code(), status.message().substr(0, n_bytes) + "…",
                       status.detail());
}

}  // namespace

const char* scope_name(Scope scope) {
  constexpr const char* names[] = {"read", "write", "submit", "agent"};
  return names[static_cast<uint32_t>(scope)];
}

arrow::Status Claims::require(Scope wanted, const std::string& what) const {
  if (allows(wanted)) return arrow::Status::OK();
  return fault("ScopeError", what + " needs a token of scope '" + scope_name(wanted) +
                                 "', this one has '" + scope_name(scope) + "'");
}

double Asking::wall_s() const {
  if (clock != nullptr) return clock(face.get());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

arrow::Status Asking::outward(const arrow::Status& status) const {
  if (status.ok()) return status;
  if (!detail_of(status).empty()) return framed(with_few_words(status));
  broken(face.get(), status.ToStringWithoutContextLines());
  return framed(fault("InternalError", "unexpected " + status.CodeAsString() +
                                           "; the log of the process it happened in says more"));
}

}  // namespace fabric
