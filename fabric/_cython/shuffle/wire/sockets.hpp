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

// Thread-safe: `look` as often as you like, it does so ten times a second at most.
class Widener {
 public:
  void look();

 private:
  std::atomic<std::chrono::steady_clock::rep> next_{0};
};

}  // namespace fabric
