// What clients may ask of a server.
//
// One job: the numbers, as `fabric.config.Limits` has them.
#pragma once
#include <cstdint>

namespace fabric {

struct Limits {
  int64_t streams_max = 512;            // calls open at once
  int64_t peer_streams_max = 256;       // of one client; agents are not counted
  int64_t connections_max = 4096;
  int64_t message_bytes = 256 << 20;    // of one message as it is sent
  int64_t unpacked_bytes = 1 << 30;     // of one batch and its dictionaries once decompressed
  double peer_idle_s = 300;             // for one message of a client; agents have no limit
  double handshake_s = 20;              // of a connection, and of Flight's Handshake
};

}  // namespace fabric
