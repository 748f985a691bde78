// The descriptors of this process, whom its sockets are connected to, and room in the Unix ones.
//
// One job: go through descriptors (gRPC opens and accepts sockets by itself and tells nobody), name
// and shut them, and set SO_SNDBUF of the Unix sockets: they begin with 208 KiB and, unlike TCP's,
// never grow, so that both ends wake each other 36 times a MiB. A message of a MiB goes out in two
// pieces instead of ten. This halves it, and spares a tenth to a quarter of a shuffle's processor
// time. All descriptors are looked through, now and then.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <string>

namespace fabric {

// Each but the standard streams; what it is may have changed by the time it is looked at.
void each_descriptor(const std::function<void(int)>& look);

// The other end of a connected socket, as gRPC writes it; empty for anything else.
std::string peer_of(int fd);

// The port of this end; -1 for what is no TCP socket.
int port_of(int fd);

// Shut `fd` if it is connected to `peer`, and this end has `port` (0: any). Whether it was.
bool shut_connection(int fd, const std::string& peer, int port = 0);

// Break the connection of one client off, by its peer as gRPC names it. It is the only way to end a
// call that sits inside gRPC until its client reads or writes; other calls of that connection end
// with it.
void cut_connection(const std::string& peer);

// The host of a peer, without its port.
inline std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

// A client that comes by a network: those of a Unix socket have no names.
inline bool has_address(const std::string& peer) { return peer.starts_with("ipv"); }

// Thread-safe: `look` as often as you like, it does so ten times a second at most.
class Widener {
 public:
  void look();

 private:
  std::atomic<std::chrono::steady_clock::rep> next_{0};
};

}  // namespace fabric
