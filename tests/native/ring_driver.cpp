// The rings and pipes alone, without Python and Arrow: what ThreadSanitizer can see whole.
//
// One job: run producers, consumers, closes and cancels against each other and check order, totals
// and that nothing is lost, doubled or leaked. Prints "ok" and ends with 0, or says what was wrong.
// Built with -DPLANTED_RACE the ring publishes an item without a release: ThreadSanitizer must see.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "ring/pipes.hpp"

using namespace fabric;

namespace {

std::atomic<int> n_live{0};

// A payload that ThreadSanitizer watches (plain numbers) and whose leaks are counted.
struct Row {
  Row(uint32_t producer, uint64_t number) : producer(producer), number(number) { ++n_live; }
  ~Row() { --n_live; }
  uint32_t producer;
  uint64_t number;
};
using RowPipes = Pipes<std::shared_ptr<Row>>;
using RowItem = RowPipes::Element;
using Places = std::vector<RowPipes::Place*>;

void expect(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

RowItem row(uint32_t producer, uint64_t number, uint64_t bytes = 8) {
  RowItem item;
  item.payload = std::make_shared<Row>(producer, number);
  item.producer = producer;
  item.rows = 1;
  item.bytes = bytes;
  return item;
}

RowItem event(uint32_t producer, Kind kind, int64_t value, uint64_t rows = 0) {
  RowItem item;
  item.producer = producer;
  item.kind = kind;
  item.value = value;
  item.rows = rows;
  return item;
}

RowPipes::Place* place(RowPipes& pipes, uint32_t edge, uint32_t partition) {
  RowPipes::Place* found = nullptr;
  expect(!pipes.find(edge, partition, found), "a port is found");
  return found;
}

// Whether all went in; false when the job was cancelled.
bool put(RowPipes& pipes, std::vector<RowPipes::Send> sends) {
  RowPipes::Putting putting;
  putting.sends = std::move(sends);
  const Refusal refused = pipes.put(putting);
  expect(!refused || refused.kind == std::string("CancelledError"), refused.text.c_str());
  expect(refused || putting.sends.empty(), "a put ends with everything in");
  return !refused;
}

bool put(RowPipes& pipes, RowPipes::Place* port, RowItem item) {
  std::vector<RowPipes::Send> sends;
  sends.push_back({port, std::move(item)});
  return put(pipes, std::move(sends));
}

void run_all(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

// The bare ring: order of each producer, every item once.
void bare_ring(uint32_t n_producers, uint64_t n_items) {
  Ring<std::shared_ptr<Row>> ring(8);
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < n_producers; ++producer) {
    threads.emplace_back([&, producer] {
      for (uint64_t number = 0; number < n_items; ++number) {
        RowItem item = row(producer, number);
        while (!ring.push(item)) std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(n_producers);
  for (uint64_t left = n_producers * n_items; left > 0;) {
    if (ring.front() == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const RowItem item = ring.pop();
    expect(item.payload->number == next[item.payload->producer]++, "order of a producer");
    --left;
  }
  run_all(threads);
  expect(n_live == 0, "no row is left");
}

struct Seen {
  uint64_t rows = 0, marks = 0;
};

// One consumer of `ports` until every producer has ended on each; checks order and totals.
void consume(RowPipes& pipes, const Places& ports, uint32_t n_producers, size_t many) {
  std::map<std::pair<RowPipes::Place*, uint32_t>, Seen> seen;
  size_t ends = ports.size() * n_producers;
  while (ends > 0) {
    RowPipes::Taking taking;
    expect(!pipes.take(ports, many, taking), "a take succeeds");
    expect(taking.items.size() <= many, "no more than asked");
    for (const auto& [port, item] : taking.items) {
      Seen& mine = seen[{port, item.producer}];
      if (item.is_rows()) {
        expect(item.payload->number == mine.rows++, "order of rows");
      } else if (item.kind == Kind::WATERMARK) {
        expect(item.value == static_cast<int64_t>(mine.rows), "no event passes a row");
        ++mine.marks;
      } else {
        expect(item.rows == mine.rows, "the total of END");
        --ends;
      }
    }
  }
}

// Every producer to every partition, a watermark behind every row.
void produce(RowPipes& pipes, const Places& ports, uint32_t producer, uint64_t n, unsigned seed) {
  std::minstd_rand random(seed);
  for (uint64_t number = 0; number < n; ++number) {
    std::vector<RowPipes::Send> sends;
    for (RowPipes::Place* port : ports) {
      sends.push_back({port, row(producer, number, 1 + random() % 100)});
      sends.push_back({port, event(producer, Kind::WATERMARK, static_cast<int64_t>(number) + 1)});
    }
    if (!put(pipes, std::move(sends))) return;
  }
  for (RowPipes::Place* port : ports) {
    if (!put(pipes, port, event(producer, Kind::END, 0, n))) return;
  }
}

void all_to_all(uint32_t n_producers, uint32_t n_partitions, uint64_t n_rows, uint64_t batches) {
  RowPipes pipes;
  pipes.declare(3, n_partitions, batches, 150, batches % 2);
  Places ports;
  for (uint32_t i = 0; i < n_partitions; ++i) ports.push_back(place(pipes, 3, i));
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < n_producers; ++producer) {
    threads.emplace_back([&, producer] { produce(pipes, ports, producer, n_rows, producer + 1); });
  }
  const Places odd{ports.begin() + 1, ports.end()};
  threads.emplace_back([&] { consume(pipes, {ports[0]}, n_producers, 1); });
  threads.emplace_back([&] { consume(pipes, odd, n_producers, 5); });
  run_all(threads);
  expect(pipes.waiting_bytes() == 0, "nothing waits at the end");
}

// Consumers close or the job is cancelled while all are at work, edges are declared meanwhile.
void stopped(bool cancel, unsigned seed) {
  std::minstd_rand random(seed);
  RowPipes pipes;
  pipes.declare(1, 3, 2, 0);
  Places ports{place(pipes, 1, 0), place(pipes, 1, 1), place(pipes, 1, 2)};
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < 4; ++producer) {
    threads.emplace_back([&, producer] { produce(pipes, ports, producer, 200, producer); });
  }
  for (RowPipes::Place* port : ports) {
    const uint64_t most = random() % 100;
    threads.emplace_back([&, port, most] {
      for (uint64_t taken = 0; taken < most;) {
        RowPipes::Taking taking;
        if (pipes.take(std::array{port}, 3, taking)) return;
        taken += taking.items.size();
      }
      std::vector<RowItem> dropped;
      if (!cancel) port->close(dropped);
    });
  }
  threads.emplace_back([&] { pipes.declare(2, 1, 1, 0); });
  if (cancel) {
    threads.emplace_back([&] {
      std::vector<RowItem> dropped;
      for (uint64_t i = random() % 50; i > 0; --i) std::this_thread::yield();
      pipes.cancel("enough", dropped);
    });
  }
  run_all(threads);
  expect(pipes.waiting_bytes() == 0, "nothing waits after the end");
  expect(n_live == 0, "closed and cancelled rings hold nothing");
  bool wanted = true;
  expect(!pipes.wanted(1, wanted) && wanted == cancel, "closed edges are not wanted");
}

// Source, two branches of which one keeps little, union; one-batch buffers everywhere.
void diamond(uint64_t n_rows) {
  RowPipes pipes;
  std::vector<std::thread> threads;
  for (uint32_t edge = 1; edge <= 4; ++edge) pipes.declare(edge, 1, 1, 0);
  threads.emplace_back([&] {
    produce(pipes, {place(pipes, 1, 0), place(pipes, 2, 0)}, 0, n_rows, 1);
  });
  for (uint32_t edge : {1u, 2u}) {
    threads.emplace_back([&, edge] {
      uint64_t kept = 0;
      for (bool over = false; !over;) {
        RowPipes::Taking taking;
        expect(!pipes.take(std::array{place(pipes, edge, 0)}, 1, taking), "a branch takes");
        RowItem& item = taking.items[0].item;
        over = item.kind == Kind::END;
        if (item.is_rows() && (edge == 1 || item.payload->number % 50 == 0)) {
          put(pipes, place(pipes, edge + 2, 0), row(0, kept++));
        }
      }
      put(pipes, place(pipes, edge + 2, 0), event(0, Kind::END, 0, kept));
    });
  }
  consume(pipes, {place(pipes, 3, 0), place(pipes, 4, 0)}, 1, 2);
  run_all(threads);
}

// A consumer that stops reading its partition holds up its own edge and no other one.
void stuck_partition() {
  RowPipes pipes;
  pipes.declare(1, 2, 2, 0);
  pipes.declare(2, 1, 2, 0);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    produce(pipes, {place(pipes, 1, 0), place(pipes, 1, 1)}, 0, 50, 1);
  });
  threads.emplace_back([&] { produce(pipes, {place(pipes, 2, 0)}, 0, 500, 1); });
  consume(pipes, {place(pipes, 2, 0)}, 1, 3);  // ends though edge 1 is not read at all
  consume(pipes, {place(pipes, 1, 1), place(pipes, 1, 0)}, 1, 3);
  run_all(threads);
}

// Deadlines, signals from outside, and what a native consumer with credit sees.
void native_consumer() {
  RowPipes pipes;
  pipes.declare(1, 1, 1, 0);
  const Places ports{place(pipes, 1, 0)};
  Waiter waiter;
  bool ready = true;
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  expect(!pipes.wait_any(ports, waiter, ready, soon) && !ready, "a deadline ends a wait");
  std::thread other([&] { waiter.signal(); });
  expect(!pipes.wait_any(ports, waiter, ready) && ready, "a signal ends a wait");
  other.join();
  RowPipes::Putting putting;
  putting.sends.push_back({ports[0], row(0, 0, 70)});
  putting.sends.push_back({ports[0], row(0, 1)});
  expect(!pipes.put(putting, soon) && putting.sends.size() == 1, "what does not fit is left");
  expect(putting.waited_ns > 0, "the wait was counted");
  std::vector<RowItem> dropped;
  const Head head = ports[0]->peek(dropped);
  expect(head.some && head.row && head.bytes == 70, "the head is seen before it is taken");
}

// What may wait follows what a busy consumer takes, at once upwards and by halves downwards.
void paced() {
  using std::chrono::milliseconds;
  constexpr uint64_t WAIT_NS = 100'000'000, MOST = 1 << 20;
  Pace pace;
  Pace::Clock::time_point now{};
  const auto works = [&](uint64_t bytes, milliseconds time) {
    pace.took(bytes);
    pace.look(WAIT_NS, MOST, now += time);
    return pace.bound(MOST);
  };
  pace.look(WAIT_NS, MOST, now);
  expect(works(1, milliseconds(49)) == MOST, "a short look tells nothing");
  expect(works(99'999, milliseconds(951)) == MOST / 2, "it shrinks by halves");
  for (int i = 0; i < 9; ++i) works(100'000, milliseconds(1000));
  expect(works(100'000, milliseconds(1000)) == 10'000, "a tenth of a second is worth a tenth");
  pace.rest();
  expect(works(1, milliseconds(9000)) == 10'000, "who rests has no pace");
  expect(works(0, milliseconds(50)) == 5'000, "a consumer that stands still has");
  expect(works(0, milliseconds(50)) == Pace::BYTES_MIN, "something may always wait");
  expect(works(1 << 20, milliseconds(50)) == MOST, "it grows at once, to what the edge allows");
}

// A consumer takes in each round what waits, all or some of what may. What a round costs and what
// each byte costs decide how much that is to be. Rounds of one size cost now this, now that, and
// some of them several times as much.
void paced_by_rounds(double least, double noise) {
  constexpr uint64_t WAIT_NS = 100'000'000, MOST = 1 << 20, ALL = 1 << 28;
  Pace pace;
  Pace::Clock::time_point now{};
  std::mt19937 chance{7};
  std::uniform_real_distribution<double> some{least, 1};
  std::lognormal_distribution<double> about{-noise * noise / 2, noise};  // 1 on average
  pace.look(WAIT_NS, MOST, now);
  struct Found {
    double slower;   // than if each round took the most
    double waiting;  // bytes, on average, that might wait
  };
  const auto work = [&](double first_s, double last_s, double byte_s) {
    double all_s = 0, waiting = 0;
    uint64_t n_rounds = 0;
    for (uint64_t left = ALL, bytes = 0; left > 0; left -= bytes, ++n_rounds) {
      const auto room = static_cast<double>(pace.bound(MOST));
      bytes = std::min(left, static_cast<uint64_t>(some(chance) * room) + 1);
      const double done = 1 - static_cast<double>(left) / ALL;
      const double round_s = first_s + done * (last_s - first_s);
      const double took_s = about(chance) * (round_s + byte_s * static_cast<double>(bytes));
      all_s += took_s;
      waiting += room;
      pace.took(bytes);
      now += std::chrono::nanoseconds(static_cast<int64_t>(took_s * 1e9));
      pace.look(WAIT_NS, MOST, now);
    }
    return Found{all_s / ((first_s + last_s) / 2 * ALL / MOST + byte_s * ALL),
                 waiting / static_cast<double>(n_rounds)};
  };
  const double outliers = noise > 0.5 ? 1.5 : 1;  // some rounds cost several times as much
  expect(work(1, 1, 1e-9).slower < 3, "rounds that cost much, whatever they take, stay large");
  expect(work(0.3, 0.3, 1e-6).slower < 2, "others as large as pays");
  expect(work(0, 0, 1e-6).waiting < 150'000 * outliers, "what waits is small if that saves time");
  expect(work(0.02, 0.02, 1e-6).waiting < 250'000, "also when a round costs a bit");
  expect(work(0.3, 1.2, 3e-6).slower < 3, "it stays as large as pays while rounds cost more");
  expect(work(0, 2, 1e-7).slower < 3, "it grows as rounds come to cost more");
  expect(work(0, 0, 1e-6).waiting < 150'000 * outliers, "it shrinks again");
  expect(work(1, 1, 1e-9).slower < 3, "it grows again");
}

// Rows and watermarks come together until the deadline; what must not wait ends that at once, also
// when it comes at the same moment.
void gathered() {
  constexpr auto NEVER_COMES = std::chrono::hours(1);
  const auto in = [](auto time) { return std::chrono::steady_clock::now() + time; };
  const auto presses = [&](RowPipes& pipes, const Places& ports, auto time) {
    bool pressed = false;
    expect(!pipes.gather(ports, in(time), pressed), "a gather of a job that runs");
    return pressed;
  };
  const auto take_all = [](RowPipes& pipes, const Places& ports) {
    RowPipes::Taking taking;
    expect(!pipes.take_now(ports, 100, taking), "a take of a job that runs");
    return taking.items.size();
  };
  RowPipes pipes;
  pipes.declare(1, 2, 8, 1 << 10);
  const Places ports{place(pipes, 1, 0), place(pipes, 1, 1)};
  const auto little = std::chrono::milliseconds(2);
  expect(!presses(pipes, ports, little), "nothing presses in empty ports");
  put(pipes, ports[0], row(0, 0));
  put(pipes, ports[1], event(0, Kind::WATERMARK, 7));
  expect(!presses(pipes, ports, little), "a row and a watermark may wait");
  put(pipes, ports[1], event(0, Kind::BARRIER, 1));
  expect(presses(pipes, ports, NEVER_COMES), "a barrier may not");
  expect(take_all(pipes, ports) == 3, "all that came together is taken");
  expect(!presses(pipes, ports, little), "a barrier that was taken is over");
  put(pipes, ports[0], row(0, 1, 600));
  expect(presses(pipes, ports, NEVER_COMES), "half of what may wait presses");
  expect(take_all(pipes, ports) == 1, "it is taken");
  for (unsigned round = 0; round < 50; ++round) {
    std::thread other([&] {
      put(pipes, ports[round % 2], round % 3 ? event(0, Kind::BARRIER, 2) : row(0, 0, 700));
    });
    expect(presses(pipes, ports, NEVER_COMES), "what comes meanwhile ends it");
    other.join();
    expect(take_all(pipes, ports) == 1, "and is there");
  }
  put(pipes, ports[1], row(0, 0, 400));
  std::thread producer([&] { put(pipes, ports[1], row(0, 0, 1000)); });
  expect(presses(pipes, ports, NEVER_COMES), "so does a producer without room");
  expect(take_all(pipes, ports) >= 1, "which gets some");
  producer.join();
  take_all(pipes, ports);
  std::thread canceller([&] {
    std::vector<RowItem> dropped;
    pipes.cancel("enough", dropped);
  });
  bool pressed = false;
  expect(!!pipes.gather(ports, in(NEVER_COMES), pressed), "a cancel ends it");
  canceller.join();
}

// Rows rest until the watermark that their consumer waits for, whenever it comes; also when it and
// what presses come at the same moment.
void rested() {
  constexpr auto NEVER_COMES = std::chrono::hours(1);
  RowPipes pipes;
  pipes.declare(1, 2, 8, 1 << 10);
  const Places ports{place(pipes, 1, 0), place(pipes, 1, 1)};
  Waiter waiter;
  const auto is_due = [&](int64_t until, auto time) {
    bool due = false;
    const Deadline deadline = std::chrono::steady_clock::now() + time;
    expect(!pipes.rest(ports, until, waiter, due, deadline), "a rest of a job that runs");
    return due;
  };
  for (int64_t round = 1; round <= 100; ++round) {
    put(pipes, ports[0], row(0, 0));
    put(pipes, ports[1], event(0, Kind::WATERMARK, 10 * round));
    expect(!is_due(10 * round + 1, std::chrono::milliseconds(1)), "no such watermark came");
    std::thread other([&] {
      const bool presses = round % 3 == 0;
      put(pipes, ports[round % 2], presses ? event(0, Kind::BARRIER, 1)
                                           : event(0, Kind::WATERMARK, 10 * round + 1));
    });
    expect(is_due(10 * round + 1, NEVER_COMES), "what comes meanwhile ends it");
    other.join();
    RowPipes::Taking taking;
    expect(!pipes.take_now(ports, 100, taking) && taking.items.size() == 3, "all is there");
  }
  std::thread other([&] { waiter.signal(); });
  expect(!is_due(INT64_MAX, NEVER_COMES), "a signal ends it, and nothing is due");
  other.join();
  std::vector<RowItem> dropped;
  std::thread canceller([&] { pipes.cancel("enough", dropped); });
  bool due = false;
  const Refusal refused =
      pipes.rest(ports, INT64_MAX, waiter, due, std::chrono::steady_clock::now() + NEVER_COMES);
  expect(!!refused && due, "a cancel ends it");
  canceller.join();
}

// A tap sees the rows of its producer as the consumer takes them; one that is cut holds nobody up.
void tapped(uint64_t n_rows, unsigned seed) {
  using RowTap = Tap<std::shared_ptr<Row>>;
  auto pipes = std::make_shared<RowPipes>();
  pipes->declare(1, 1, 2, 0);
  RowPipes::Place* port = place(*pipes, 1, 0);
  const auto tap_of = [&](bool lossless) {
    auto tap = std::make_shared<RowTap>(std::set<uint32_t>{1}, lossless, Bounds{2, 1 << 20});
    port->add(tap, pipes);
    return tap;
  };
  const auto read = [&](const std::shared_ptr<RowTap>& tap, bool all) {
    TapTotals totals;
    for (bool ended = false;;) {
      std::shared_ptr<Row> got;
      if (tap->take(got, totals)) {
        expect(got->producer == 1, "a tap leaves other producers out");
        expect(got->number + 1 == totals.rows + totals.skipped, "a tap counts what it misses");
      } else if (ended) {
        break;
      } else {
        ended = port->ended(tap->producers());
        if (!ended) tap->wait(std::chrono::steady_clock::now() + std::chrono::seconds(1));
      }
    }
    expect(totals.rows + totals.skipped == n_rows, "a tap counts every row");
    expect(!all || totals.skipped == 0, "a lossless tap misses none");
    port->remove(*tap);
  };
  std::vector<std::thread> threads;
  for (bool lossless : {false, true}) {
    threads.emplace_back([&, lossless, tap = tap_of(lossless)] { read(tap, lossless); });
  }
  threads.emplace_back([&, tap = tap_of(true)] {
    std::minstd_rand random(seed);
    for (uint64_t i = random() % 50; i > 0; --i) std::this_thread::yield();
    tap->cut();
    port->remove(*tap);
  });
  for (uint32_t producer = 0; producer < 2; ++producer) {
    threads.emplace_back(
        [&, producer] { produce(*pipes, {port}, producer, n_rows, producer + 1); });
  }
  consume(*pipes, {port}, 2, 3);
  run_all(threads);
}

}  // namespace

int main(int count, char** arguments) {
  const unsigned rounds = count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : 1;
  for (unsigned round = 0; round < rounds; ++round) {
    bare_ring(4, 2000);
    all_to_all(3, 3, 150, 1 + round % 3);
    stopped(false, round);
    stopped(true, round);
    diamond(200);
    stuck_partition();
    native_consumer();
    paced();
    for (const double least : {1., 0.9, 0.3}) {
      for (const double noise : {0., 0.1, 0.3, 0.8}) paced_by_rounds(least, noise);
    }
    gathered();
    rested();
    tapped(200, round + 1);
    expect(n_live == 0, "no row is left at the end");
  }
  std::puts("ok");
}
