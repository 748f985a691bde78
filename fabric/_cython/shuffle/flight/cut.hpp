// Breaks the connection of one client off.
//
// One job: find the socket of a peer as gRPC names it, and shut it down. It is the only way to end
// a call that sits inside gRPC until its client reads or writes; other calls of that connection end
// with it.
#pragma once
#include <string>

namespace fabric {

// The host of a peer, without its port.
inline std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

// A client that comes by a network: those of a Unix socket have no names.
inline bool has_address(const std::string& peer) { return peer.starts_with("ipv"); }

void cut_connection(const std::string& peer);

}  // namespace fabric
