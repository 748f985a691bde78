// Limits of gRPC's own, for which Flight has no settings.
//
// One job: channel arguments into the `grpc::ServerBuilder` that Flight's builder hook hands out.
// gRPC is hidden inside the wheel's library and its headers are not shipped, so what its public
// headers make part of every caller is declared here again: how the builder begins, the interface
// of an option, and the arguments that an option changes. What Flight has put there by then is
// known and looked at first: a wheel that was built otherwise is refused in words.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flight/limits.hpp"
#include "wire/fault.hpp"

namespace fabric {

struct GrpcArgument {
  int type;
  char* key;
  union {
    char* text;
    int number;
    struct {
      void* object;
      const void* table;
    } pointer;
  } value;
};

struct GrpcArguments {
  static constexpr int NUMBER = 1;

  void set(const std::string& key, int number) {
    keys.push_back(key);
    GrpcArgument argument{};
    argument.type = NUMBER;
    argument.key = keys.back().data();
    argument.value.number = number;
    arguments.push_back(argument);
  }

  std::vector<GrpcArgument> arguments;
  std::list<std::string> keys;  // in the order of the arguments
};

class GrpcOption {
 public:
  virtual ~GrpcOption() = default;
  virtual void change_arguments(GrpcArguments* arguments) = 0;
  virtual void change_plugins(void*) {}
};

struct GrpcBuilder {
  const void* table;
  int message_bytes, sent_message_bytes;
  std::vector<std::unique_ptr<GrpcOption>> options;

  // Whether it is what Flight makes: no limit on messages, and the port not shared.
  bool known() const { return message_bytes == -1 && options.size() == 1; }
};

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
  return arrow::Status::OK();
}

}  // namespace fabric
