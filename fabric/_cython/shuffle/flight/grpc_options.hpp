// Limits of gRPC's own, for which Flight has no settings.
//
// One job: channel arguments and interceptors into the `grpc::ServerBuilder` that Flight's builder
// hook hands out.
#pragma once
#include <utility>

#include "flight/grpc_abi.hpp"
#include "flight/inspection.hpp"
#include "flight/limits.hpp"
#include "wire/fault.hpp"

namespace fabric {

class GrpcLimits : public GrpcOption {
 public:
  // Connections that are idle for long are closed, but not those of agents by a Unix socket.
  GrpcLimits(const Limits& limits, bool local) {
    set("grpc.max_concurrent_streams", limits.streams_max);
    set("grpc.max_allowed_incoming_connections", limits.connections_max);
    set("grpc.server_handshake_timeout_ms", milliseconds(limits.handshake_s));
    // A message that gRPC has compressed by itself could unfold to anything before it is seen.
    set("grpc.per_message_decompression", 0);
    if (local) return;
    set("grpc.max_connection_idle_ms", milliseconds(limits.peer_idle_s));
    set("grpc.keepalive_time_ms", milliseconds(KEEPALIVE_S));  // clients whose network is gone
    set("grpc.keepalive_timeout_ms", milliseconds(KEEPALIVE_S));
  }

  void change_arguments(GrpcArguments* arguments) override {
    for (const auto& [key, number] : numbers_) arguments->set(key, number);
  }

 private:
  static constexpr double KEEPALIVE_S = 60;

  static int64_t milliseconds(double seconds) { return static_cast<int64_t>(seconds * 1000); }
  void set(const char* key, int64_t number) {
    numbers_.emplace_back(key, static_cast<int>(std::min<int64_t>(number, INT32_MAX)));
  }

  std::vector<std::pair<const char*, int>> numbers_;
};

// For the builder hook.
inline arrow::Status limit_grpc(void* given, const Limits& limits, bool local) {
  auto* builder = static_cast<GrpcBuilder*>(given);
  if (!builder->known()) {
    return fault("ConfigError",
                 "this build of pyarrow has another gRPC than the one whose limits are known; "
                 "install pyarrow's own wheel");
  }
  builder->message_bytes = static_cast<int>(std::min<int64_t>(limits.message_bytes, INT32_MAX));
  builder->options.push_back(std::make_unique<GrpcLimits>(limits, local));
  builder->interceptors.push_back(std::make_unique<Inspectors>(limits.unpacked_bytes));
  return arrow::Status::OK();
}

}  // namespace fabric
