"""Items from N producers to one consumer: rings against `queue.SimpleQueue`, items/s.

`pipes …`: Python threads put record batches into one partition of a pipelined edge and one takes
lists of them, as tasks do; the rings are bounded as in a job (64 batches, 8 MiB), count bytes and
totals. `ring …`: pipes between native threads, as the data plane uses them, 1024 items a ring.
The peers' threads put and get one tuple an item. `SimpleQueue` has no bound, so its producers never
wait and a consumer seldom; `Queue(64)` is bounded like the rings. An item is a batch of 64 Ki rows,
one of 16 rows ("tiny"), or two numbers ("ring").

What an engine gives is every item in the order of its producer: rows = items, and a checksum.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import Queue, SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine

TAKE = 64
"""Items that a consumer asks for at once."""
ROOT = Path(__file__).resolve().parent
N_RING, N_TINY, N_LARGE = 400_000, 40_000, 1_024
TINY, LARGE = 16, 65_536
FACTOR, MASK = 1_000_003, (1 << 64) - 1

Batches = list[pa.RecordBatch]


def make_batches(case: Case) -> list[Batches]:
    """The batches of each producer; a few different ones, again and again."""
    rng = np.random.default_rng(1)
    n = case.parameters["batch_rows"]
    few = [
        pa.record_batch({"k": rng.integers(0, 1 << 60, n), "v": rng.integers(0, 9, n)})
        for _ in range(7)
    ]
    producers = case.parameters["producers"]
    each = case.rows // producers
    return [[few[(p + i) % 7] for i in range(each)] for p in range(producers)]


def run_threads(work: Sequence[Callable[[], None]]) -> None:
    """Run all to their ends."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class BatchRun:
    """What was taken, as (producer, batch), and its checksum."""

    def __init__(self, case: Case, exchange: Callable[[list[Batches]], list[Any]]) -> None:
        self._given, self._exchange = make_batches(case), exchange

    def work(self) -> object:
        """All batches from their producers to the consumer."""
        return self._exchange(self._given)

    def answer(self) -> Answer:
        """Items, and a sum over their numbers in the order of each producer."""
        taken = self._exchange(self._given)
        sums: dict[int, int] = {}
        known = {id(batch): first_value(batch) for given in self._given for batch in given}
        for producer, batch in taken:
            value = known.get(id(batch)) or first_value(batch)
            sums[producer] = (sums.get(producer, 0) * FACTOR + value + batch.num_rows) & MASK
        return Answer(len(taken), f"{sum(sums.values()) & MASK:016x}")

    def close(self) -> None:
        """Nothing is kept."""


def first_value(batch: pa.RecordBatch) -> int:
    """Says which of the few batches it is."""
    return int(batch.column(0)[0].as_py())


def pipes_run(case: Case) -> BatchRun:
    """Fabric's pipes: what carries a pipelined edge inside an agent."""
    from fabric.agent.pipes import Mark, Pipes, Rows
    from fabric.flight.header import Event

    port = (1, 0)

    def exchange(given: list[Batches]) -> list[Any]:
        pipes = Pipes("bench")
        pipes.declare(1, 1)
        taken: list[Any] = []

        def produce(producer: int) -> None:
            rows = 0
            for batch in given[producer]:
                rows += batch.num_rows
                pipes.put([(port, Rows(producer, batch))])
            pipes.put([(port, Mark(producer, Event.END, total_rows=rows))])

        def consume() -> None:
            left = len(given)
            while left:
                for _, item in pipes.take_many([port], TAKE):
                    if isinstance(item, Rows):
                        taken.append((item.producer, item.batch))
                    else:
                        left -= 1

        run_threads([*(lambda p=p: produce(p) for p in range(len(given))), consume])
        return taken

    return BatchRun(case, exchange)


def queue_run(case: Case) -> BatchRun:
    """The same through a `SimpleQueue`."""
    return through(SimpleQueue, case)


def bounded_run(case: Case) -> BatchRun:
    """The same through a `Queue` of 64."""
    return through(lambda: Queue(64), case)


def through(make_queue: Callable[[], Any], case: Case) -> BatchRun:
    """The same through a queue of Python's; None is a producer's end."""

    def exchange(given: list[Batches]) -> list[Any]:
        queue = make_queue()
        taken: list[Any] = []

        def produce(producer: int) -> None:
            for batch in given[producer]:
                queue.put((producer, batch))
            queue.put(None)

        def consume() -> None:
            left = len(given)
            while left:
                if (item := queue.get()) is None:
                    left -= 1
                else:
                    taken.append(item)

        run_threads([*(lambda p=p: produce(p) for p in range(len(given))), consume])
        return taken

    return BatchRun(case, exchange)


class NumberRun:
    """`ask` gives items and checksum: order matters within a producer, not among them."""

    def __init__(self, ask: Callable[[], tuple[int, int]], stack: ExitStack) -> None:
        self._ask, self._stack = ask, stack

    def work(self) -> object:
        """All numbers once."""
        return self._ask()

    def answer(self) -> Answer:
        """What was taken."""
        items, total = self._ask()
        return Answer(items, f"{total & MASK:016x}")

    def close(self) -> None:
        """End what was started."""
        self._stack.close()


def ring_run(case: Case) -> NumberRun:
    """Pipes in a process without Python, which moves all items once for every line it is sent."""
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    program = os.path.join(folder, "ring")
    include = f"-I{ROOT.parent / 'fabric' / '_cython' / 'shuffle'}"
    source = str(ROOT / "exchange_ring.cpp")
    subprocess.run(["g++", "-O3", "-std=c++20", include, source, "-o", program], check=True)
    producers = case.parameters["producers"]
    process = stack.enter_context(
        subprocess.Popen(
            [program, str(producers), str(case.rows // producers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    into, out = process.stdin, process.stdout
    stack.callback(into.close)

    def ask() -> tuple[int, int]:
        into.write("go\n")
        items, total = out.readline().split()
        return int(items), int(total)

    return NumberRun(ask, stack)


def queue_numbers_run(case: Case) -> NumberRun:
    """The same numbers through a `SimpleQueue`."""
    producers = case.parameters["producers"]
    each = case.rows // producers

    def ask() -> tuple[int, int]:
        queue: SimpleQueue[tuple[int, int]] = SimpleQueue()
        sums = [0] * producers

        def produce(producer: int) -> None:
            for number in range(each):
                queue.put((producer, number))

        def consume() -> None:
            for _ in range(each * producers):
                producer, number = queue.get()
                sums[producer] = (sums[producer] * FACTOR + number) & MASK

        run_threads([*(lambda p=p: produce(p) for p in range(producers)), consume])
        return each * producers, sum(sums)

    return NumberRun(ask, ExitStack())


def _cases(quick: bool) -> Iterator[Case]:
    for producers in (1, 4):
        for name, items, rows in (("tiny", N_TINY, TINY), ("64Ki", N_LARGE, LARGE)):
            n = items // (4 if quick else 1)
            parameters = {"producers": producers, "batch_rows": rows}
            yield Case(f"pipes {name} x{producers}", n, n * rows * 16, parameters)
        n = N_RING // (4 if quick else 1)
        yield Case(f"ring x{producers}", n, n * 16, {"producers": producers})


def cases(quick: bool) -> Sequence[Case]:
    """One and four producers."""
    return list(_cases(quick))


def engines(case: Case) -> Sequence[Engine]:
    """Ours and Python's queues."""
    if case.name.startswith("ring"):
        return [
            Engine(None, "bench.exchange:ring_run"),
            Engine("SimpleQueue", "bench.exchange:queue_numbers_run"),
        ]
    return [
        Engine(None, "bench.exchange:pipes_run"),
        Engine("SimpleQueue", "bench.exchange:queue_run"),
        Engine("Queue(64)", "bench.exchange:bounded_run"),
    ]


BENCHMARK = Benchmark(
    name="exchange",
    about="rings against queue.SimpleQueue, N producers to one consumer, items/s",
    cases=cases,
    engines=engines,
)
