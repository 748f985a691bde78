// Limits of gRPC's own, for which Flight has no settings; messages refused before they are read.
//
// One job: channel arguments and interceptors into the `grpc::ServerBuilder` that Flight's builder
// hook hands out. gRPC shows each message of a put to an interceptor of that call; Flight shows the
// body of every message to the server's memory manager. What was refused has another body in its
// place, whose answer is why.
#pragma once
#include <arrow/type_fwd.h>

#include <memory>

namespace fabric {

struct Limits;

// For the builder hook; `local`: of a Unix socket.
arrow::Status limit_grpc(void* given, const Limits& limits, bool local);

// The memory manager of a server whose builder was limited.
std::shared_ptr<arrow::MemoryManager> intake();

}  // namespace fabric
