// What goes through a ring, and what is said to those who put and take.
//
// One job: plain data, for whoever uses pipes without their code (`batches.hpp`).
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fabric {

template <class Payload>
class Port;

// What an item is; the numbers are those of `Event` in wire/header.hpp.
enum class Kind : uint32_t { ROWS = 0, WATERMARK = 1, BARRIER = 2, END = 3 };

// A batch or an event of one producer task. The payload is what is moved; events have none.
template <class Payload>
struct Item {
  Payload payload{};
  uint64_t bytes = 0;  // of a batch
  uint64_t rows = 0;   // of a batch; END: of all that the producer sent
  int64_t value = 0;   // watermark in microseconds, barrier id
  uint32_t producer = 0;
  Kind kind = Kind::ROWS;

  bool is_rows() const { return kind == Kind::ROWS; }
};

using Deadline = std::chrono::steady_clock::time_point;
constexpr Deadline NEVER = Deadline::max();

// What a producer needs room for; consumers need nothing.
struct Need {
  uint64_t bytes = 0;
  bool row = false;      // a batch; events take a slot only
  bool gathers = false;  // a consumer that lets items come together: wake it only for what presses
  int64_t until = INT64_MAX;  // and for a watermark of so much
};

// What an edge allows to wait for each of its partitions.
struct Bounds {
  uint64_t batches, bytes;
};

constexpr uint64_t BATCHES_WAITING_MAX = 64;
// Batches that may wait for one partition, unless the edge says otherwise.
constexpr uint64_t BYTES_WAITING_MAX = 8 << 20;
// Bytes that may wait for one partition; a larger batch is let in when nothing else waits.

// Why something was not done: a class of fabric.errors, and words. Without a kind all is well.
struct Refusal {
  const char* kind = nullptr;
  std::string text;
  explicit operator bool() const { return kind != nullptr; }
};

// What lies first: nothing, an event, or a batch of so many bytes.
struct Head {
  bool some = false, row = false;
  uint64_t bytes = 0;
};

template <class Payload>
struct Send {
  Port<Payload>* port;
  Item<Payload> item;
};

// A put under way: `sends` shrinks to what does not fit yet. `dropped` is what closed ports still
// held; the caller destroys it where that may take a while.
template <class Payload>
struct Putting {
  std::vector<Send<Payload>> sends;
  std::vector<Item<Payload>> dropped;
  std::vector<std::pair<Port<Payload>*, Need>> full;  // the ports that had no room, each once
  uint64_t waited_ns = 0;
};

template <class Payload>
struct Taking {
  std::vector<Send<Payload>> items;  // in the order of each port
  uint64_t bytes = 0;       // of their rows
  uint64_t bytes_max = UINT64_MAX;  // with so much of them no more are taken
  std::vector<Item<Payload>> dropped;
};

}  // namespace fabric
