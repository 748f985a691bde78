// Pipelined edges between native threads: PRODUCERS ITEMS, once for every line read.
//
// One job: what `bench/exchange.py` times. Prints the items taken and the sum of one checksum per
// producer, in which the order of its items matters.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "ring/pipes.hpp"

using namespace fabric;
using Numbers = Pipes<uint64_t>;

namespace {

constexpr uint64_t SLOTS = 1024, FACTOR = 1'000'003;

void produce(Numbers& pipes, Numbers::Place* port, uint32_t producer, uint64_t n) {
  Numbers::Putting putting;
  for (uint64_t number = 0; number < n; ++number) {
    putting.sends.push_back(
        {port, {.payload = number, .bytes = 8, .rows = 1, .producer = producer}});
    pipes.put(putting);
  }
}

void once(uint32_t n_producers, uint64_t n) {
  Numbers pipes;
  Numbers::Place* port = nullptr;
  pipes.declare(1, 1, SLOTS, 0);
  pipes.find(1, 0, port);
  std::vector<std::thread> threads;
  for (uint32_t producer = 0; producer < n_producers; ++producer) {
    threads.emplace_back([&, producer] { produce(pipes, port, producer, n); });
  }
  std::vector<uint64_t> sums(n_producers);
  uint64_t items = 0;
  for (Numbers::Taking taking; items < n * n_producers; taking.items.clear()) {
    pipes.take({&port, 1}, SLOTS / 2, taking);
    for (const auto& [_, item] : taking.items) {
      sums[item.producer] = sums[item.producer] * FACTOR + item.payload;
    }
    items += taking.items.size();
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t sum = 0;
  for (const uint64_t one : sums) sum += one;
  std::printf("%lu %lu\n", items, sum);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const uint32_t n_producers = static_cast<uint32_t>(std::atoi(arguments[1]));
  const uint64_t n = std::strtoull(arguments[2], nullptr, 10);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') once(n_producers, n);
  }
}
