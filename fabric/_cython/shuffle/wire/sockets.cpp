// Descriptors by /proc, and the room of Unix sockets.
#include "wire/sockets.hpp"

#include <dirent.h>
#include <sys/socket.h>

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

void Widener::look() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  auto next = next_.load(std::memory_order_relaxed);
  const auto later = now + std::chrono::steady_clock::duration(LOOK_EVERY).count();
  if (now >= next && next_.compare_exchange_strong(next, later)) widen_unix_sockets();
}

}  // namespace fabric
