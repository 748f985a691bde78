from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.agent.pipes import Item, Mark, Pipes, Rows
from fabric.errors import CancelledError, InternalError
from fabric.flight.header import Event


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["a"])


def rows(producer: int, *values: int) -> Rows:
    return Rows(producer, batch(*values))


def end(producer: int, total: int) -> Mark:
    return Mark(producer, Event.END, total_rows=total)


class Spawned:
    """A thread whose result or error can be had."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self.error = error

    def join(self) -> Any:
        self.thread.join(20)
        assert not self.thread.is_alive(), "deadlock"
        if self.error is not None:
            raise self.error
        return self.result


def drain(pipes: Pipes, ports: list[tuple[int, int]], producers: int) -> list[Item]:
    """Take from all ports until every producer ended on each."""
    left = dict.fromkeys(ports, producers)
    found: list[Item] = []
    while left:
        port, item = pipes.take(list(left))
        found.append(item)
        if isinstance(item, Mark) and item.event is Event.END:
            left[port] -= 1
            if not left[port]:
                del left[port]
    return found


@settings(deadline=None)
@given(
    n_batches=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    n_partitions=st.integers(1, 3),
    batches_max=st.integers(1, 3),
)
def test_every_row_arrives_in_order_and_events_stay_behind_rows(
    n_batches: list[int], n_partitions: int, batches_max: int
) -> None:
    pipes = Pipes("job")
    pipes.declare(1, n_partitions, batches_max)

    def produce(producer: int, n: int) -> None:
        for number in range(n):
            pipes.put([((1, p), rows(producer, number)) for p in range(n_partitions)])
            pipes.put(
                [((1, p), Mark(producer, Event.WATERMARK, number)) for p in range(n_partitions)]
            )
        pipes.put([((1, p), end(producer, n)) for p in range(n_partitions)])

    threads = [Spawned(partial(produce, i, n)) for i, n in enumerate(n_batches)]
    takers = [Spawned(partial(drain, pipes, [(1, p)], len(n_batches))) for p in range(n_partitions)]
    for thread in threads:
        thread.join()
    for taker in takers:
        items = taker.join()
        for producer, n in enumerate(n_batches):
            mine = [item for item in items if item.producer == producer]
            want: list[object] = [x for i in range(n) for x in (("rows", i), ("mark", i))]
            assert [
                ("rows", item.batch.column(0)[0].as_py())
                if isinstance(item, Rows)
                else ("mark", item.value)
                for item in mine[:-1]
            ] == want
            assert mine[-1] == end(producer, n)


def test_a_full_partition_holds_its_producer_until_there_is_room() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 2, 1)
    pipes.put([((1, 0), rows(0, 1))])
    blocked = Spawned(lambda: pipes.put([((1, 0), rows(0, 2)), ((1, 1), rows(0, 3))]))
    port, item = pipes.take([(1, 1)])  # the other partition is served meanwhile
    assert port == (1, 1)
    assert isinstance(item, Rows)
    assert blocked.thread.is_alive()
    pipes.take([(1, 0)])
    blocked.join()
    assert pipes.waiting_bytes() == 8


def test_bytes_bound_lets_one_large_batch_in_alone() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 1, 10, 100)
    large = Rows(0, batch(*range(1000)))
    pipes.put([((1, 0), large)])
    blocked = Spawned(lambda: pipes.put([((1, 0), rows(0, 1))]))
    assert pipes.take([(1, 0)])[1] == large
    blocked.join()


def test_a_diamond_with_one_batch_buffers_ends() -> None:
    """Source → two branches, one of which keeps nothing → union."""
    pipes = Pipes("job")
    for edge in (1, 2, 3, 4):
        pipes.declare(edge, 1, 1)

    def source() -> None:
        for i in range(50):
            pipes.put([((1, 0), rows(0, i)), ((2, 0), rows(0, i))])
        pipes.put([((1, 0), end(0, 50)), ((2, 0), end(0, 50))])

    def branch(edge_in: int, edge_out: int, keep: int) -> None:
        sent = 0
        for item in drain_lazily(pipes, (edge_in, 0)):
            if item.batch.column(0)[0].as_py() % keep == 0:
                pipes.put([((edge_out, 0), item)])
                sent += 1
        pipes.put([((edge_out, 0), end(0, sent))])

    threads = [
        Spawned(source),
        Spawned(lambda: branch(1, 3, 1)),
        Spawned(lambda: branch(2, 4, 100)),
    ]
    items = Spawned(lambda: drain(pipes, [(3, 0), (4, 0)], 1)).join()
    for thread in threads:
        thread.join()
    assert sum(isinstance(item, Rows) for item in items) == 51


def drain_lazily(pipes: Pipes, port: tuple[int, int]) -> Any:
    while True:
        _, item = pipes.take([port])
        if isinstance(item, Mark):
            return
        yield item


def test_cancel_wakes_producers_and_consumers() -> None:
    pipes = Pipes("job-1")
    pipes.declare(1, 1, 1)
    pipes.declare(2, 1, 1)
    pipes.put([((1, 0), rows(0, 1))])
    waiting = [
        Spawned(lambda: pipes.put([((1, 0), rows(0, 2))])),
        Spawned(lambda: pipes.take([(2, 0)])),
    ]
    pipes.cancel("stop it")
    for thread in waiting:
        with pytest.raises(CancelledError, match=r"stop it \(job job-1\)"):
            thread.join()
    assert pipes.waiting_bytes() == 0
    with pytest.raises(CancelledError, match="stop it"):
        pipes.put([((1, 0), rows(0, 2))])


def test_a_closed_partition_drops_rows_and_lets_producers_go_on() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 2, 1)
    pipes.put([((1, 0), rows(0, 1))])
    blocked = Spawned(lambda: pipes.put([((1, 0), rows(0, 2))]))
    assert pipes.wanted(1)
    pipes.close((1, 0))
    blocked.join()
    assert pipes.wanted(1)
    pipes.close((1, 1))
    assert not pipes.wanted(1)
    assert pipes.waiting_bytes() == 0


def test_both_ends_must_agree() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 2)
    with pytest.raises(InternalError, match="2 partitions at one end and 3 at the other"):
        pipes.declare(1, 3)
    with pytest.raises(InternalError, match="edge 7 was never declared"):
        pipes.take([(7, 0)])
    with pytest.raises(InternalError, match="announced 5 rows and sent 0"):
        pipes.put([((1, 0), end(0, 5))])


def test_a_take_within_a_time_gives_nothing_or_what_came():
    pipes = Pipes("j")
    pipes.declare(0, 1)
    assert pipes.take_many([(0, 0)], 5, timeout_s=0.0) == []
    assert pipes.take_many([(0, 0)], 5, timeout_s=0.01) == []
    taking = Spawned(lambda: pipes.take_many([(0, 0)], 5, timeout_s=1e300))
    pipes.put([((0, 0), rows(1, 7))])
    assert taking.join() == [((0, 0), rows(1, 7))]
    pipes.cancel("enough")
    with pytest.raises(CancelledError):
        pipes.take_many([(0, 0)], 5, timeout_s=0.0)
