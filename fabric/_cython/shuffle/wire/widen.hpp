// Room in Unix sockets: a message of a MiB goes out in two pieces instead of ten.
//
// One job: SO_SNDBUF of the Unix sockets of this process. They begin with 208 KiB and, unlike
// TCP's, never grow: both ends wake each other 36 times a MiB. This halves it, and spares a tenth
// to a quarter of a shuffle's processor time. All descriptors are looked
// through, now and then.
#pragma once
#include <sys/socket.h>

#include <atomic>
#include <chrono>

#include "wire/descriptors.hpp"

namespace fabric {

constexpr int SEND_BYTES = 512 << 10;  // the kernel takes twice that
constexpr std::chrono::milliseconds LOOK_EVERY(100);

inline int socket_option(int descriptor, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

inline void widen_unix_sockets() {
#if defined(__linux__)
  each_descriptor([](int descriptor) {
    if (socket_option(descriptor, SO_DOMAIN) != AF_UNIX) return;
    if (socket_option(descriptor, SO_SNDBUF) >= SEND_BYTES) return;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &SEND_BYTES, sizeof SEND_BYTES);
  });
#endif
}

// Thread-safe: `look` as often as you like, it does so ten times a second at most.
class Widener {
 public:
  void look() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    auto next = next_.load(std::memory_order_relaxed);
    const auto later = now + std::chrono::steady_clock::duration(LOOK_EVERY).count();
    if (now >= next && next_.compare_exchange_strong(next, later)) widen_unix_sockets();
  }

 private:
  std::atomic<std::chrono::steady_clock::rep> next_{0};
};

}  // namespace fabric
