// All pipelined edges of one job on an agent: rings between tasks, with waiting.
//
// One job: find ports, put what fits and wait for the rest, take from any of several ports, cancel.
// Finding, putting and taking need no lock; only threads that find nothing to do enter wait lists.
// A producer waits for room in all its ports at once and a consumer for an item in all of its, so
// that a diamond with one-batch buffers can't block. No Arrow and no Python in here: the payload is
// a template, so that tests/native can run all of it under ThreadSanitizer; `batches.hpp` has those
// of batches.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "port.hpp"

namespace fabric {

template <class Payload>
class Pipes {
 public:
  using Element = Item<Payload>;
  using Place = Port<Payload>;

  using Send = fabric::Send<Payload>;
  using Putting = fabric::Putting<Payload>;
  using Taking = fabric::Taking<Payload>;

  Pipes() = default;
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;

  // Makes an edge known, from either end and in any order; a bound of 0 leaves it as it is. With
  // `wait_ns` no more bytes wait for a partition than its consumer takes in that time.
  Refusal declare(uint32_t edge, uint32_t n_partitions, uint64_t batches_max, uint64_t bytes_max,
                  uint64_t wait_ns = 0) {
    std::lock_guard held(declaring_);
    auto& known = edges_[edge];
    if (known == nullptr) {
      known = std::make_unique<Edge>(edge, n_partitions);
      publish();
    }
    if (known->ports.size() != n_partitions) {
      return bug("edge " + std::to_string(edge) + " has " + std::to_string(known->ports.size()) +
                 " partitions at one end and " + std::to_string(n_partitions) + " at the other");
    }
    // relaxed: a bound that is seen late was in force when it was read
    PortLimits& limits = known->limits;
    if (batches_max > 0) {
      limits.batches.store(std::min(batches_max, ROOM_BATCHES_MAX), std::memory_order_relaxed);
    }
    if (bytes_max > 0) {
      limits.bytes.store(std::min(bytes_max, ROOM_BYTES_MAX), std::memory_order_relaxed);
    }
    if (wait_ns > 0) limits.wait_ns.store(wait_ns, std::memory_order_relaxed);
    for (auto& port : known->ports) port->wake_producers();
    return {};
  }

  // A port stays where it is as long as the pipes live, so it may be kept.
  Refusal find(uint32_t edge, uint32_t partition, Place*& port) const {
    const Edge* found = find_edge(edge);
    if (found == nullptr) return never_declared(edge);
    if (partition >= found->ports.size()) {
      return bug("edge " + std::to_string(edge) + " has " + std::to_string(found->ports.size()) +
                 " partitions, number " + std::to_string(partition) + " was asked for");
    }
    port = found->ports[partition].get();
    return {};
  }

  // All ports of an edge, by partition.
  Refusal find_all(uint32_t edge, std::vector<Place*>& ports) const {
    const Edge* found = find_edge(edge);
    if (found == nullptr) return never_declared(edge);
    for (const auto& port : found->ports) ports.push_back(port.get());
    return {};
  }

  // Puts what fits now and leaves the rest in `put.sends`; never waits. Items of one port keep
  // their order.
  Refusal put_now(Putting& put) {
    put.full.clear();
    if (cancelled()) return cancellation();
    const bool distinct = each_port_once(put.sends);
    size_t kept = 0;
    for (Send& send : put.sends) {
      if (distinct || !blocked(put, send.port)) {
        const Put done = send.port->put(send.item, put.dropped);
        if (done == Put::DONE) continue;
        if (done != Put::FULL) return misput(done, send);
        put.full.push_back({send.port, {send.item.bytes, send.item.is_rows()}});
      }
      Send& place = put.sends[kept++];
      if (&place != &send) place = std::move(send);
    }
    put.sends.resize(kept);
    return cancelled() ? cancellation() : Refusal{};
  }

  // Puts everything, whichever has room first; what is left at `deadline` stays in `put.sends`.
  Refusal put(Putting& put, Deadline deadline = NEVER) {
    Refusal refused = put_now(put);
    if (refused || put.sends.empty()) return refused;
    const auto began = std::chrono::steady_clock::now();
    std::vector<Place*> woken;  // ports that signalled us
    bool late = false;
    while (!refused && !put.sends.empty() && !late) {
      Waiter waiter;
      const auto asked = put.full;
      for (auto& [port, need] : asked) port->producers.add(waiter, need);
      const size_t before = put.sends.size();
      refused = put_now(put);  // room may have come before we were in the lists
      const bool idle = !refused && put.sends.size() == before;
      if (idle && !waiter.wait(deadline)) late = true;
      for (auto& [port, need] : asked) {
        if (!port->producers.remove(waiter)) woken.push_back(port);
      }
      if (idle) refused = put_now(put);
      for (Place* port : std::exchange(woken, {})) port->wake_producers();
    }
    put.waited_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count();
    return refused;
  }

  // Up to `n` items of `ports` that wait now, earlier ports first and each its share; may be none.
  Refusal take_now(std::span<Place* const> ports, size_t n, Taking& taking) {
    if (cancelled()) return cancellation();
    const size_t share = std::max<size_t>(1, n / std::max<size_t>(1, ports.size()));
    const size_t most = taking.items.size() + n;
    for (bool more = true; more;) {
      more = false;
      for (Place* port : ports) {
        const auto keep = [&](Element&& item) {
          taking.bytes += item.is_rows() ? item.bytes : 0;
          taking.items.push_back({port, std::move(item)});
        };
        const size_t now = std::min(share, most - taking.items.size());
        if (now == 0 || taking.bytes >= taking.bytes_max) break;
        const uint64_t bytes_left = taking.bytes_max - taking.bytes;
        more |= port->take(now, keep, taking.dropped, bytes_left) > 0;
      }
    }
    return cancelled() ? cancellation() : Refusal{};
  }

  // The same, but waits for the first one; none only when `deadline` came first.
  Refusal take(std::span<Place* const> ports, size_t n, Taking& taking, Deadline deadline = NEVER) {
    if (ports.empty()) return bug("nothing to take from");
    Waiter waiter;
    for (;;) {
      if (Refusal refused = take_now(ports, n, taking)) return refused;
      if (!taking.items.empty()) return {};
      bool ready = false;
      if (Refusal refused = wait_any(ports, waiter, ready, deadline)) return refused;
      if (!ready) return {};
    }
  }

  // Until one of `ports` may have an item, or somebody signals `waiter`, which is the caller's own
  // and may be shared with whoever else has news for it; `ready` is false when `deadline` came.
  Refusal wait_any(std::span<Place* const> ports, Waiter& waiter, bool& ready,
                   Deadline deadline = NEVER) {
    for (Place* port : ports) {
      port->rest();
      port->consumers.add(waiter);
    }
    ready = cancelled();
    for (Place* port : ports) ready = ready || port->ready();
    if (!ready) ready = waiter.wait(deadline);
    for (Place* port : ports) port->consumers.remove(waiter);
    return cancelled() ? cancellation() : Refusal{};
  }

  // Lets items of `ports` come together until `deadline`; `pressed`: something must not wait. One
  // wake in all, however many items come meanwhile.
  Refusal gather(std::span<Place* const> ports, Deadline deadline, bool& pressed) {
    Waiter waiter;
    for (Place* port : ports) {
      port->rest();
      port->consumers.add(waiter, {.gathers = true});
    }
    pressed = cancelled();
    for (Place* port : ports) pressed = pressed || port->closed() || port->presses();
    if (!pressed) pressed = waiter.wait(deadline);
    for (Place* port : ports) port->consumers.remove(waiter);
    return cancelled() ? cancellation() : Refusal{};
  }

  // Leaves items of `ports` where they are until `deadline`, for nobody has any use for them before
  // a watermark of `until`. Ends at once when one was put, when something must not wait or somebody
  // watches what is taken (`due`), and when `waiter`, which is the caller's own, is signalled.
  Refusal rest(std::span<Place* const> ports, int64_t until, Waiter& waiter, bool& due,
               Deadline deadline) {
    for (Place* port : ports) {
      port->rest();
      port->consumers.add(waiter, {.gathers = !port->watched(), .until = until});
    }
    const auto is_due = [&](const Place* port) {
      return port->closed() || port->presses() || port->reached(until) ||
             (port->watched() && port->ready());
    };
    due = cancelled() || std::ranges::any_of(ports, is_due);
    if (!due && waiter.wait(deadline)) due = cancelled() || std::ranges::any_of(ports, is_due);
    for (Place* port : ports) port->consumers.remove(waiter);
    return cancelled() ? cancellation() : Refusal{};
  }

  // Whether any partition of `edge` still has, or may get, a consumer. A cancelled job's producers
  // are told by their next put.
  Refusal wanted(uint32_t edge, bool& answer) const {
    const Edge* found = find_edge(edge);
    if (found == nullptr) return never_declared(edge);
    answer = cancelled();
    for (const auto& port : found->ports) answer = answer || !port->closed();
    return {};
  }

  uint64_t waiting_bytes() const {
    uint64_t sum = 0;
    for (const auto& [_, edge] : *table_.load(std::memory_order_acquire)) {
      for (const auto& port : edge->ports) sum += port->bytes();
    }
    return sum;
  }

  // Wakes everyone: each waiting and each later call is refused. What waits goes to `dropped`.
  void cancel(std::string reason, std::vector<Element>& dropped) {
    std::lock_guard held(declaring_);
    if (!cancelled()) {
      reason_ = std::move(reason);
      // release: the reason. seq_cst: before the looks at who waits; waiters look after entering.
      cancelled_.store(true, std::memory_order_seq_cst);
    }
    for (auto& [_, edge] : edges_) {
      for (auto& port : edge->ports) port->close(dropped);
    }
  }

  bool cancelled() const { return cancelled_.load(std::memory_order_seq_cst); }

  // Why a call is refused that nobody should make.
  static Refusal bug(std::string text) { return {"InternalError", std::move(text)}; }

 private:
  struct Edge {
    Edge(uint32_t edge, uint32_t n_partitions) {
      for (uint32_t partition = 0; partition < n_partitions; ++partition) {
        ports.push_back(std::make_unique<Place>(edge, partition, limits));
      }
    }
    PortLimits limits{BATCHES_WAITING_MAX, BYTES_WAITING_MAX, 0};
    std::vector<std::unique_ptr<Place>> ports;
  };
  using Table = std::vector<std::pair<uint32_t, const Edge*>>;  // by number

  static Refusal never_declared(uint32_t edge) {
    return bug("edge " + std::to_string(edge) + " was never declared");
  }
  Refusal cancellation() const { return {"CancelledError", reason_}; }

  static Refusal misput(Put why, const Send& send) {
    const std::string who = "producer " + std::to_string(send.item.producer);
    if (why == Put::BAD_PRODUCER) {
      return bug(who + " is beyond the " + std::to_string(PRODUCERS_MAX) + " of an edge");
    }
    return bug(who + " announced " + std::to_string(send.item.rows) + " rows and sent " +
               std::to_string(send.port->sent_rows(send.item.producer)));
  }

  // Told by their order, as producers make them; false is only slower.
  static bool each_port_once(const std::vector<Send>& sends) {
    return std::ranges::is_sorted(sends, std::ranges::less_equal{}, [](const Send& send) {
      return uint64_t{send.port->edge} << 32 | send.port->partition;
    });
  }

  static bool blocked(const Putting& put, const Place* port) {
    for (const auto& [full, _] : put.full) {
      if (full == port) return true;
    }
    return false;
  }

  // Readers take the newest table without a lock; older ones are kept until the end, for a reader
  // may still be in one and there is one per declared edge only.
  void publish() {
    auto table = std::make_unique<Table>();
    for (const auto& [number, edge] : edges_) table->push_back({number, edge.get()});
    // release: the edge and its ports before the table that leads to them
    table_.store(table.get(), std::memory_order_release);
    tables_.push_back(std::move(table));
  }

  const Edge* find_edge(uint32_t number) const {
    const Table& table = *table_.load(std::memory_order_acquire);
    const auto at = std::lower_bound(table.begin(), table.end(), std::pair(number, nullptr),
                                     [](auto& a, auto& b) { return a.first < b.first; });
    return at != table.end() && at->first == number ? at->second : nullptr;
  }

  std::mutex declaring_;
  std::map<uint32_t, std::unique_ptr<Edge>> edges_;
  std::vector<std::unique_ptr<const Table>> tables_;
  const Table none_;
  std::atomic<const Table*> table_{&none_};
  std::string reason_;  // written once, before `cancelled_`
  std::atomic<bool> cancelled_{false};
};

}  // namespace fabric
