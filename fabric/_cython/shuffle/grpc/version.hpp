// Which gRPC is inside the wheel of pyarrow.
//
// One job: the version that gRPC's core tells, `grpc_version_string()`.
#pragma once
#include <string>

namespace fabric {

// The one whose shapes `abi.hpp` declares: gRPC 1.76, as in the wheels of pyarrow 25.0.
constexpr const char* GRPC_KNOWN = "51.0.0";

// That of the libarrow_flight which is loaded; empty when it tells none.
std::string installed_grpc();

}  // namespace fabric
