// The thread that looks at connections: see `admission.hpp`.
//
// One job: sleep until a connection arrives, or strangers are to be judged; then look.
#include "wire/admission.hpp"

#include "wire/sockets.hpp"

#if defined(__linux__)
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace fabric {
namespace {

using std::chrono::milliseconds;

// Who accepts may be late, so there are more looks behind an arrival.
constexpr milliseconds LOOK_PAUSE(5), LOOK_SOON(100), LOOK_AGAIN(1000), LOOK_ANYWAY(10'000);
constexpr int LOOK_SHARE = 4;  // of a core, so that no crowd takes more
// How long a token may have been here that nobody has read yet, and how often bytes are counted.
constexpr milliseconds MUCH(100), YOUNG(250), COUNTED(50);

int64_t part(int64_t all, int64_t divisor) { return std::max<int64_t>(1, all / divisor); }

std::chrono::milliseconds handshake(const Capacity& capacity) {
  return milliseconds(static_cast<int64_t>(capacity.handshake_s * 1000));
}

// Half of the descriptors stay for everything else.
Capacity affordable(Capacity capacity) {
#if defined(__linux__)
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const auto half = static_cast<int64_t>(limit.rlim_cur / 2);
    capacity.connections_max = std::min(capacity.connections_max, half);
  }
#endif
  return capacity;
}

#if defined(__linux__)

// Bytes that came by a connection; 0 where the kernel does not tell.
int64_t received(int fd) {
  tcp_info told{};
  socklen_t size = sizeof told;
  constexpr size_t WANTED = offsetof(tcp_info, tcpi_bytes_received) + sizeof(uint64_t);
  const bool known = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &size) == 0 && size >= WANTED;
  return known ? static_cast<int64_t>(told.tcpi_bytes_received) : 0;
}

bool is_listener(int fd) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value != 0;
}

#endif

}  // namespace

Admission::Admission(const Capacity& capacity) : capacity_(affordable(capacity)) {}

Admission::~Admission() {
#if defined(__linux__)
  over_.store(true);
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
  for (const int fd : {events_, wake_}) {
    if (fd >= 0) ::close(fd);
  }
#endif
}

void Admission::admit(const std::string& peer, Kind kind) {
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[peer];
  entry.shown = now;
  if (entry.kind == Kind::AGENT || (entry.kind == kind && kind != Kind::STRANGER)) return;
  entry.kind = kind;
  entry.since = now;
  if (kind != Kind::STRANGER) return;
  if (due_ == Clock::time_point::max()) wake();
  due_ = std::min(due_, now + handshake(capacity_));
}

int64_t Admission::count(Kind kind) const {
  std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(), [kind](const auto& one) {
    return one.second.kind == kind && one.second.fd >= 0 && !one.second.over;
  });
}

#if defined(__linux__)

void Admission::watch(int port) {
  port_ = port;
  events_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  ::epoll_ctl(events_, EPOLL_CTL_ADD, wake_, &event);
  for (const auto time : {milliseconds(0), LOOK_SOON, LOOK_AGAIN}) later(time);
  thread_ = std::thread([this] { run(); });
}

void Admission::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void Admission::run() {
  std::array<epoll_event, 64> events{};
  while (!over_.load()) {
    const int n =
        ::epoll_wait(events_, events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      uint64_t woken;
      if (fd == wake_) {
        (void)!::read(wake_, &woken, sizeof woken);
      } else {
        for (const auto time : {milliseconds(0), LOOK_SOON, LOOK_AGAIN}) later(time);
      }
    }
    const auto now = Clock::now();
    const bool looks = now - looked_ > LOOK_ANYWAY ||
                       std::any_of(looks_.begin(), looks_.end(),
                                   [now](const auto& time) { return time <= now; });
    if (looks) look();
    judge(looks);
  }
}

// Those that are near each other are one.
void Admission::later(milliseconds time) {
  const auto at = std::max(Clock::now() + time, looked_ + pause_);
  const auto near = [at](const auto& other) {
    return other <= at + LOOK_PAUSE && other >= at - LOOK_PAUSE;
  };
  if (std::none_of(looks_.begin(), looks_.end(), near)) looks_.push_back(at);
}

int Admission::wait_ms() const {
  auto next = looked_ + LOOK_ANYWAY;
  for (const auto& time : looks_) next = std::min(next, time);
  std::lock_guard lock(mutex_);
  next = std::min(next, due_);
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

// Who is connected now. Entries of others go, unless they were shown while we looked.
void Admission::look() {
  const auto began = Clock::now();
  std::vector<std::pair<int, std::string>> found;
  bool listens = false;
  each_descriptor([&](int fd) {
    if (port_of(fd) != port_) return;
    std::string peer = peer_of(fd);
    if (!peer.empty()) {
      found.emplace_back(fd, std::move(peer));
    } else if (is_listener(fd)) {
      listens = true;
      epoll_event event{};
      event.events = EPOLLIN | EPOLLET;
      event.data.fd = fd;
      (void)::epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event);  // unless it is watched already
    }
  });
  std::lock_guard lock(mutex_);
  ++n_looks_;
  for (auto& [fd, peer] : found) {
    auto [at, fresh] = entries_.try_emplace(std::move(peer));
    Entry& entry = at->second;
    entry.look = n_looks_;
    if (fresh) entry.since = began;
    if (entry.fd == fd) continue;
    entry.fd = fd;
    entry.over = false;
    entry.much.reset();
  }
  std::erase_if(entries_, [&](const auto& one) {
    return one.second.look != n_looks_ && one.second.shown < began;
  });
  looked_ = Clock::now();
  pause_ = std::max<Clock::duration>(LOOK_PAUSE, LOOK_SHARE * (looked_ - began));
  std::erase_if(looks_, [began](const auto& time) { return time <= began; });
  if (!listens) later(LOOK_SOON);
}

// End strangers whose time is over; and when there was a look, whoever is one too many.
void Admission::judge(bool looked) {
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  if (!looked && now < due_) return;
  std::vector<Named*> strangers, waited, clients;
  due_ = Clock::time_point::max();
  for (auto& one : entries_) {
    Entry& entry = one.second;
    if (entry.fd < 0 || entry.over) continue;
    if (entry.kind == Kind::CLIENT) clients.push_back(&one);
    if (entry.kind != Kind::STRANGER) continue;
    auto until = entry.since + handshake(capacity_);
    if (capacity_.stranger_bytes > 0) {
      if (!entry.much && received(entry.fd) > capacity_.stranger_bytes) entry.much = now;
      if (entry.much) until = std::min(until, *entry.much + MUCH);
      due_ = std::min(due_, now + COUNTED);
    }
    if (until <= now) {
      end(one);
    } else {
      strangers.push_back(&one);
      if (now - entry.since >= YOUNG) waited.push_back(&one);
      due_ = std::min(due_, until);
    }
  }
  if (strangers.size() > waited.size()) later(YOUNG);
  bound(waited, part(capacity_.connections_max, 4), true);
  std::erase_if(strangers, [](const Named* one) { return one->second.over; });
  bound(strangers, part(capacity_.connections_max, 2), true);
  bound(clients, part(capacity_.connections_max, 2), false);
}

// No more than `places` of `those`, of one address half.
void Admission::bound(std::vector<Named*>& those, int64_t places, bool oldest) {
  const int64_t each = part(places, 2);
  if (static_cast<int64_t>(those.size()) <= each) return;
  // First who goes last; of those that were found at once the descriptors tell the order.
  std::sort(those.begin(), those.end(), [oldest](const Named* a, const Named* b) {
    const auto age = [](const Named* one) { return std::pair(one->second.since, one->second.fd); };
    return oldest ? age(a) > age(b) : age(a) < age(b);
  });
  std::unordered_map<std::string_view, int64_t> by_host;
  int64_t n = 0;
  for (Named* one : those) {
    const std::string_view peer(one->first);
    int64_t& here = by_host[peer.substr(0, peer.rfind(':'))];
    if (n < places && here < each) {
      ++n;
      ++here;
    } else {
      end(*one);
    }
  }
}

// Its descriptor may be another's by now: a copy can't become one.
void Admission::end(Named& one) {
  one.second.over = true;
  ended_.fetch_add(1, std::memory_order_relaxed);
  shut_connection(one.second.fd, one.first, port_);
  later(LOOK_SOON);
}

#else

void Admission::watch(int port) { port_ = port; }
void Admission::wake() const {}

#endif

}  // namespace fabric
