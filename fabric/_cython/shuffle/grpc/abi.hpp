// What is known of the gRPC inside the wheel of pyarrow: its version, and our own limits.
//
// One job: channel arguments and interceptors, for which Flight has no settings, into the
// `grpc::ServerBuilder` that Flight's builder hook hands out. gRPC shows each message of a put to
// an interceptor of that call; Flight shows the body of every message to the server's memory
// manager. What was refused has another body in its place, whose answer is why.
#pragma once
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>

namespace fabric {

// The one whose shapes `abi.cpp` declares: gRPC 1.76, as in the wheels of pyarrow 25.0.
constexpr const char* GRPC_KNOWN = "51.0.0";

// That of the libarrow_flight which is loaded; empty when it tells none.
std::string installed_grpc();

// What clients may ask of a server, as `fabric.config.Limits` has it.
struct Limits {
  int64_t streams_max = 512;            // calls open at once
  int64_t peer_streams_max = 256;       // of one client; agents are not counted
  int64_t connections_max = 4096;
  int64_t message_bytes = 256 << 20;    // of one message as it is sent
  int64_t unpacked_bytes = 1 << 30;     // of one batch and its dictionaries once decompressed
  double peer_idle_s = 300;             // for one message of a client; agents have no limit
  double handshake_s = 20;              // of a connection, and of Flight's Handshake
};

// For the builder hook; `local`: of a Unix socket.
arrow::Status limit_grpc(void* given, const Limits& limits, bool local);

// The memory manager of a server whose builder was limited.
std::shared_ptr<arrow::MemoryManager> intake();

}  // namespace fabric
