"""Any schedule of producers, ports, sizes and closes: the multiset, the order and the totals."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.agent.pipes import Item, Mark, Pipes, Port, Rows
from fabric.flight.header import Event

Sends = list[tuple[Port, Item]]
WAIT_S = 30.0


@dataclass(frozen=True)
class Schedule:
    """What producers send, in calls of several sends, and how consumers read."""

    ports: list[Port]
    calls: list[list[list[tuple[Port, int]]]]
    """By producer, by call: (port, rows); 0 rows is a watermark."""
    readers: list[list[Port]]
    """Ports by consumer."""
    closed_after: dict[Port, int]
    """Ports whose consumer wants no more after so many items."""
    batches_max: int
    bytes_max: int
    wait_ns: int
    at_once: int


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Up to three producers, six ports on two edges, three consumers."""
    edges = {1: draw(st.integers(1, 3)), 2: draw(st.integers(1, 3))}
    ports = [(edge, partition) for edge, n in edges.items() for partition in range(n)]
    send = st.tuples(st.sampled_from(ports), st.integers(0, 40))
    calls = st.lists(st.lists(send, max_size=5), max_size=8)
    owners = [draw(st.integers(0, 2)) for _ in ports]
    readers = [[p for p, o in zip(ports, owners, strict=True) if o == i] for i in range(3)]
    return Schedule(
        ports=ports,
        calls=draw(st.lists(calls, min_size=1, max_size=3)),
        readers=[reader for reader in readers if reader],
        closed_after=draw(st.dictionaries(st.sampled_from(ports), st.integers(0, 6), max_size=2)),
        batches_max=draw(st.integers(1, 3)),
        bytes_max=draw(st.sampled_from([1, 100, 1 << 20])),
        wait_ns=draw(st.sampled_from([0, 1, 10**9])),
        at_once=draw(st.integers(1, 7)),
    )


def items_of(schedule: Schedule, producer: int) -> list[Sends]:
    """The items of one producer: rows count up per port, a mark says how many came before it."""
    count: Counter[Port] = Counter()
    calls: list[Sends] = []
    for call in schedule.calls[producer]:
        sends: Sends = []
        for port, n in call:
            values = pa.array(range(count[port], count[port] + n), pa.int64())
            item: Item = Rows(producer, pa.record_batch([values], names=["a"]))
            count[port] += n
            mark = Mark(producer, Event.WATERMARK, count[port])
            sends.append((port, item if n else mark))
        calls.append(sends)
    ends = [(p, Mark(producer, Event.END, total_rows=count[p])) for p in schedule.ports]
    return [*calls, list(ends)]


def read(pipes: Pipes, ports: list[Port], n_producers: int, schedule: Schedule) -> Sends:
    """Take from `ports` until every producer ended on each, or it was closed."""
    ends = dict.fromkeys(ports, n_producers)
    left = {port: schedule.closed_after.get(port, 1 << 30) for port in ports}
    found: Sends = []
    while ends:
        for port in [port for port in ends if left[port] <= 0]:
            pipes.close(port)
            del ends[port]
        if not ends:
            break
        for port, item in pipes.take_many(list(ends), schedule.at_once):
            found.append((port, item))
            left[port] -= 1
            if isinstance(item, Mark) and item.event is Event.END:
                ends[port] -= 1
                if not ends[port]:
                    del ends[port]
    return found


def plain(item: Item) -> tuple[object, ...]:
    if isinstance(item, Rows):
        return ("rows", item.producer, item.batch.column(0).to_pylist())
    return (item.event, item.producer, item.value, item.total_rows)


def together(*work: Callable[[], None]) -> None:
    """Run all at once; none may hang."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads), "deadlock"


@settings(deadline=None, max_examples=60)
@given(schedule=schedules())
def test_every_schedule_keeps_order_rows_and_totals(schedule: Schedule) -> None:
    pipes = Pipes("job")
    for edge in (1, 2):
        n = sum(port[0] == edge for port in schedule.ports)
        pipes.declare(edge, n, schedule.batches_max, schedule.bytes_max, schedule.wait_ns)
    n_producers = len(schedule.calls)
    sent = [items_of(schedule, producer) for producer in range(n_producers)]
    found: Sends = []

    def produce(producer: int) -> None:
        for sends in sent[producer]:
            pipes.put(sends)

    def consume(ports: list[Port]) -> None:
        found.extend(read(pipes, ports, n_producers, schedule))

    together(
        *(lambda p=p: produce(p) for p in range(n_producers)),
        *(lambda ports=ports: consume(ports) for ports in schedule.readers),
    )
    for port in schedule.ports:
        for producer in range(n_producers):
            want = [plain(i) for call in sent[producer] for p, i in call if p == port]
            got = [plain(i) for p, i in found if p == port and i.producer == producer]
            whole = port not in schedule.closed_after
            assert got == (want if whole else want[: len(got)])
    assert pipes.waiting_bytes() == 0


def test_a_partition_nobody_reads_holds_up_its_own_edge_only() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 2, 1)
    pipes.declare(2, 1, 1)
    one = pa.record_batch([pa.array([1])], names=["a"])
    stuck = threading.Thread(
        target=lambda: [pipes.put([((1, 0), Rows(0, one)), ((1, 1), Rows(0, one))]) for _ in "ab"],
        daemon=True,
    )
    stuck.start()
    pipes.take([(1, 1)])
    pipes.take([(1, 1)])  # the partition that is read gets the second round, too
    for _ in range(100):
        pipes.put([((2, 0), Rows(0, one))])
        pipes.take([(2, 0)])
    assert stuck.is_alive()
    pipes.take([(1, 0)])
    stuck.join(WAIT_S)
    assert not stuck.is_alive()


def test_events_need_no_room_while_rows_have_none() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 1, 1)
    one = Rows(0, pa.record_batch([pa.array([1])], names=["a"]))
    barriers = [Mark(0, Event.BARRIER, i) for i in range(100)]
    assert pipes.put([((1, 0), one), *(((1, 0), barrier) for barrier in barriers)]) == 0
    found = pipes.take_many([(1, 0)], 1000)
    assert [item for _, item in found] == [one, *barriers]


@pytest.mark.parametrize(("bytes_max", "n"), [(1, 1), (8, 1), (9, 2), (1 << 20, 4)])
def test_a_list_is_closed_by_its_bytes(bytes_max: int, n: int) -> None:
    pipes = Pipes("job")
    pipes.declare(1, 2)
    one = Rows(0, pa.record_batch([pa.array([1])], names=["a"]))
    for _ in range(2):
        pipes.put([((1, 0), one), ((1, 1), one)])
    ports = [(1, 0), (1, 1)]
    assert len(pipes.take_many(ports, 100, bytes_max)) == n
    assert sum(len(pipes.take_many(ports, 100)) for _ in range(n < 4)) == 4 - n


def test_waiting_for_room_is_counted() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 1, 1)
    one = Rows(0, pa.record_batch([pa.array([1])], names=["a"]))
    waited: list[int] = []
    producer = threading.Thread(
        target=lambda: waited.extend(pipes.put([((1, 0), one)]) for _ in range(3)), daemon=True
    )
    producer.start()
    for _ in range(3):
        pipes.take([(1, 0)])
    producer.join(WAIT_S)
    assert len(waited) == 3
    assert all(0 <= ns < WAIT_S * 1e9 for ns in waited)


def test_a_bound_may_come_after_the_first_rows() -> None:
    pipes = Pipes("job")
    pipes.declare(1, 1, 1)
    one = Rows(0, pa.record_batch([pa.array([1])], names=["a"]))
    pipes.put([((1, 0), one)])
    blocked = threading.Thread(target=lambda: pipes.put([((1, 0), one)]), daemon=True)
    blocked.start()
    pipes.declare(1, 1, 2)
    blocked.join(WAIT_S)
    assert not blocked.is_alive()
