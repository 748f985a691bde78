// Shortcuts to agents of this host: their Unix sockets, by Flight address.
//
// One job: know which socket may be used. Whoever listens there is shown our token, so the socket
// must lie in a folder that is this user's alone, where nobody else can have put it. One that does
// not answer is forgotten; its agent is then reached by its address. Never waits for a network.
#pragma once
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <system_error>

namespace fabric {

// Why the socket at `path` can't be used; empty when it can.
inline std::string socket_trouble(const std::string& path) {
  const auto failed = [] { return std::generic_category().message(errno); };
  sockaddr_un name{};
  if (path.size() >= sizeof name.sun_path || path.empty() || path[0] != '/') {
    return "its path is too long, or none";
  }
  struct stat folder{};
  if (lstat(path.substr(0, path.rfind('/')).c_str(), &folder) != 0) return failed();
  if (!S_ISDIR(folder.st_mode) || folder.st_uid != geteuid() || (folder.st_mode & 077) != 0) {
    return "its folder is not this user's alone";
  }
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (end < 0) return failed();
  const int done = connect(end, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  const std::string why = done == 0 || errno == EAGAIN ? "" : failed();  // EAGAIN: many wait there
  close(end);
  return why;
}

class Shortcuts {
 public:
  // Use these sockets (with `only` no others); why some can't be used.
  std::map<std::string, std::string> add(const std::map<std::string, std::string>& paths,
                                         bool only) {
    std::map<std::string, std::string> refused;
    const std::lock_guard<std::mutex> held(mutex_);
    if (only) paths_.clear();
    for (const auto& [address, path] : paths) {
      if (std::string why = socket_trouble(path); !why.empty()) {
        refused[address] = std::move(why);
        paths_.erase(address);
      } else {
        paths_[address] = path;
      }
    }
    return refused;
  }

  bool any() const {
    const std::lock_guard<std::mutex> held(mutex_);
    return !paths_.empty();
  }

  // How to reach the server at `address` now: its socket, or the address itself.
  std::string way_to(const std::string& address) {
    const std::lock_guard<std::mutex> held(mutex_);
    const auto found = paths_.find(address);
    if (found == paths_.end()) return address;
    if (socket_trouble(found->second).empty()) return "grpc+unix://" + found->second;
    paths_.erase(found);
    return address;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> paths_;
};

}  // namespace fabric
