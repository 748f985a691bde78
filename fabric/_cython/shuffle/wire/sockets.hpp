// The descriptors of this process, and room in its Unix sockets.
//
// One job: go through descriptors (gRPC opens and accepts sockets by itself and tells nobody), and
// set SO_SNDBUF of the Unix sockets: they begin with 208 KiB and, unlike TCP's, never grow, so that
// both ends wake each other 36 times a MiB. A message of a MiB goes out in two pieces instead of
// ten. This halves it, and spares a tenth to a quarter of a shuffle's processor time. All
// descriptors are looked through, now and then.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>

namespace fabric {

// Each but the standard streams; what it is may have changed by the time it is looked at.
void each_descriptor(const std::function<void(int)>& look);

// Thread-safe: `look` as often as you like, it does so ten times a second at most.
class Widener {
 public:
  void look();

 private:
  std::atomic<std::chrono::steady_clock::rep> next_{0};
};

}  // namespace fabric
