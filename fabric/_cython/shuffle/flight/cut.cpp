// The sockets of this process, by the names that gRPC gives their peers.
#include "flight/cut.hpp"

#include "wire/sockets.hpp"

namespace fabric {

void cut_connection(const std::string& peer) {
  each_descriptor([&](int fd) { shut_connection(fd, peer); });
}

}  // namespace fabric
