// Descriptors by /proc, their peers, and the room of Unix sockets.
#include "wire/sockets.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace fabric {
namespace {

constexpr int SEND_BYTES = 512 << 10;  // the kernel takes twice that
constexpr std::chrono::milliseconds LOOK_EVERY(100);

int socket_option(int descriptor, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

void widen_unix_sockets() {
#if defined(__linux__)
  each_descriptor([](int descriptor) {
    if (socket_option(descriptor, SO_DOMAIN) != AF_UNIX) return;
    if (socket_option(descriptor, SO_SNDBUF) >= SEND_BYTES) return;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &SEND_BYTES, sizeof SEND_BYTES);
  });
#endif
}

}  // namespace

void each_descriptor(const std::function<void(int)>& look) {
#if defined(__linux__)
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder)) {
    if (const int descriptor = std::atoi(entry->d_name); descriptor > 2) look(descriptor);
  }
  ::closedir(folder);
#endif
}

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

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family != AF_INET6) return -1;
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

bool shut_connection(int fd, const std::string& peer, int port) {
  if (peer_of(fd) != peer) return false;
  const int same = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);  // so that it can't become another one's
  if (same < 0) return false;
  const bool ours = peer_of(same) == peer && (port == 0 || port_of(same) == port);
  if (ours) ::shutdown(same, SHUT_RDWR);
  ::close(same);
  return ours;
}

void cut_connection(const std::string& peer) {
  each_descriptor([&](int fd) { shut_connection(fd, peer); });
}

void Widener::look() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  auto next = next_.load(std::memory_order_relaxed);
  const auto later = now + std::chrono::steady_clock::duration(LOOK_EVERY).count();
  if (now >= next && next_.compare_exchange_strong(next, later)) widen_unix_sockets();
}

}  // namespace fabric
