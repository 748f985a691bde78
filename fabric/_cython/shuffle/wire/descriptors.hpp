// The descriptors of this process.
//
// One job: go through them. gRPC opens and accepts sockets by itself and tells nobody.
#pragma once
#include <dirent.h>

#include <cstdlib>

namespace fabric {

// Each but the standard streams; what it is may have changed by the time it is looked at.
template <class Look>
void each_descriptor(Look&& look) {
#if defined(__linux__)
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const entry = ::readdir(folder)) {
    if (const int descriptor = std::atoi(entry->d_name); descriptor > 2) look(descriptor);
  }
  ::closedir(folder);
#endif
}

}  // namespace fabric
