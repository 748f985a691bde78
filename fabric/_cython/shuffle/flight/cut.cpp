// The sockets of this process, by the names that gRPC gives their peers.
#include "flight/cut.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/sockets.hpp"

namespace fabric {
namespace {

// The other end of a connected socket, as gRPC writes it; empty for anything else.
std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[INET6_ADDRSTRLEN] = {};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return "ipv4:" + std::string(text) + ":" + std::to_string(ntohs(four.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  const std::string port = std::to_string(ntohs(six.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof text);
    return "ipv4:" + std::string(text) + ":" + port;
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  return "ipv6:%5B" + std::string(text) + "%5D:" + port;
}

}  // namespace

void cut_connection(const std::string& peer) {
  each_descriptor([&](int fd) {
    if (peer_of(fd) != peer) return;
    const int same = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);  // so that it can't become another one's
    if (same < 0) return;
    if (peer_of(same) == peer) ::shutdown(same, SHUT_RDWR);
    ::close(same);
  });
}

}  // namespace fabric
