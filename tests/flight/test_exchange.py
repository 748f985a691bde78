"""Pipelined edges between agents: rings here, rings there, a real server between them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.exchange.exchanges import Exchange, InProcessExchange, JobPipes
from fabric._cython.shuffle.pump.pump import Connections
from fabric.agent.pipes import Mark, Pipes, Rows
from fabric.errors import (
    CancelledError,
    FabricError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
)
from fabric.flight.header import Event
from fabric.flight.sockets import new_socket, remove_socket
from tests.support.cut_proxy import CutProxy, How
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

JOB, NODE, EDGE = "job-1", "moved", 3
WORDS = pa.dictionary(pa.int8(), pa.string())
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("d", WORDS)])
PLACES = ("flight", "socket", "in process")
CODECS = ("", "lz4", "zstd")
NOWHERE = "grpc+tcp://127.0.0.1:1"
Said = tuple[Any, ...]


def batch(*numbers: int) -> pa.RecordBatch:
    texts = [str(n) * (n % 7) for n in numbers]
    words = pa.array([f"w{n % 3}" for n in numbers]).dictionary_encode().cast(WORDS)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), texts_of(texts), words], schema=SCHEMA
    )


def texts_of(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())


@dataclass(frozen=True)
class Server:
    """The producers' agent, and how to reach it."""

    jobs: JobPipes
    connections: Connections
    address: str
    token: str
    strangers_token: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with FlightRig(tmp_path_factory.mktemp("rig"), 1, tap_idle_s=10.0) as rig:
        connections = Connections()
        socket = new_socket(tmp_path_factory.mktemp("agent"))
        rig.servers["a0"].listen(socket)
        assert connections.shorten({NOWHERE: str(socket)}) == {}
        jobs, agent, stranger = rig.exchanges["a0"], rig.token("agent"), rig.token("write")
        yield Server(jobs, connections, rig.address(), agent, stranger)
        connections.close()
    remove_socket(socket)


@dataclass
class Ends:
    """Both ends of one edge."""

    source: Pipes
    target: Pipes
    exchange: Exchange | InProcessExchange


@contextmanager
def joined(
    server: Server,
    place: str,
    n_partitions: int,
    producers: list[tuple[int, int, int]],
    **options: Any,
) -> Iterator[Ends]:
    """The edge, opened by its consumers' agent."""
    source, target = Pipes(JOB), Pipes(JOB)
    server.jobs.add(JOB, source)
    for task, attempt, _ in producers:
        server.jobs.begin(JOB, EDGE, task, attempt)
    same: dict[str, Any] = {"job": JOB, "node": NODE, "edge": EDGE, "n_partitions": n_partitions}
    exchange: Exchange | InProcessExchange
    if place == "in process":
        exchange = InProcessExchange(server.jobs, target, producers=producers, **same)
    else:
        exchange = Exchange(
            server.connections, target, token=server.token,
            address=NOWHERE if place == "socket" else server.address,
            producers=producers, schema=SCHEMA, **same, **options,
        )  # fmt: skip
    source.declare(EDGE, n_partitions)
    target.declare(EDGE, n_partitions)
    try:
        yield Ends(source, target, exchange)
    finally:
        source.cancel("the test is over")
        target.cancel("the test is over")
        exchange.close()
        server.jobs.remove(JOB)


def told(item: Rows | Mark) -> Said:
    """What an item says, to be compared."""
    if isinstance(item, Rows):
        return ("rows", *(tuple(row.values()) for row in item.batch.to_pylist()))
    return (Event(item.event), item.value, item.total_rows)


def rows_of(said: list[Said]) -> list[Said]:
    """Rows one by one, events as they are: batches may be joined or cut on the way."""
    found: list[Said] = []
    for one in said:
        found += one[1:] if one[0] == "rows" else [one]
    return found


def consume(
    ends: Ends,
    partitions: list[int],
    n_ends: int,
    found: dict[tuple[int, int], list[Said]] | None = None,
) -> dict[tuple[int, int], list[Said]]:
    """Everything that comes, by (producer, partition), until so many ENDs; kept in `found`."""
    found = defaultdict(list) if found is None else found
    while n_ends:
        for (_, partition), item in ends.target.take_many([(EDGE, p) for p in partitions], 64):
            found[item.producer, partition].append(told(item))
            n_ends -= isinstance(item, Mark) and item.event is Event.END
    return found


def running(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


EVENTS = st.sampled_from([Event.WATERMARK, Event.BARRIER])
STEP = st.one_of(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 1000), max_size=200)),
    st.tuples(st.integers(0, 3), EVENTS),
)


def items_of(producer: int, steps: list[Any], n_partitions: int) -> list[tuple[int, Rows | Mark]]:
    """The items of one producer, closed by an END for each partition."""
    rows = [0] * n_partitions
    items: list[tuple[int, Rows | Mark]] = []
    for number, (partition, what) in enumerate(steps):
        at = partition % n_partitions
        if isinstance(what, Event):
            items.append((at, Mark(producer, what, number)))
        elif what:
            items.append((at, Rows(producer, batch(*what))))
            rows[at] += len(what)
    items += [(p, Mark(producer, Event.END, 0, total)) for p, total in enumerate(rows)]
    return items


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=25, deadline=None)
@given(
    n_partitions=st.integers(1, 4),
    steps=st.lists(st.lists(STEP, max_size=25), min_size=1, max_size=3),
    wire=st.tuples(st.sampled_from([1, 3000, 1 << 20]), st.sampled_from(CODECS)),
)
def test_order_and_rows_are_those_of_the_producers(
    server: Server, place: str, n_partitions: int, steps: list[list[Any]], wire: tuple[int, str]
) -> None:
    producers = [(task, 0, p) for task in range(len(steps)) for p in range(n_partitions)]
    given = {"window_bytes": wire[0], "compression": wire[1]}
    options: dict[str, Any] = given if place != "in process" else {}
    with joined(server, place, n_partitions, producers, **options) as ends:
        all_items = [items_of(task, some, n_partitions) for task, some in enumerate(steps)]

        def produce(items: list[tuple[int, Rows | Mark]]) -> None:
            for partition, item in items:
                ends.source.put([((EDGE, partition), item)])

        threads = [running(partial(produce, items)) for items in all_items]
        found = consume(ends, list(range(n_partitions)), len(producers))
        for thread in threads:
            thread.join(30)
        expected: dict[tuple[int, int], list[Said]] = defaultdict(list)
        for task, items in enumerate(all_items):
            for partition, item in items:
                expected[task, partition].append(told(item))
        assert {k: rows_of(v) for k, v in found.items()} == {
            k: rows_of(v) for k, v in expected.items()
        }
        ends.exchange.check()


@pytest.mark.parametrize("place", PLACES)
def test_a_partition_that_nobody_reads_stalls_no_other(server: Server, place: str) -> None:
    producers = [(0, 0, 0), (0, 0, 1)]
    options = {"window_bytes": 4096} if place != "in process" else {}
    with joined(server, place, 2, producers, **options) as ends:
        ends.source.declare(EDGE, 2, 4)
        ends.target.declare(EDGE, 2, 4)
        stuck = running(lambda: _put_until_refused(ends.source, 1))
        for number in range(500):
            ends.source.put([((EDGE, 0), Rows(0, batch(*range(number, number + 50))))])
            if number == 250:
                assert stuck.is_alive()
            _drain(ends.target, 0, 50)
        assert stuck.is_alive()


@pytest.mark.parametrize("place", PLACES)
def test_no_more_is_on_its_way_than_a_slow_consumer_takes_in_its_time(
    server: Server, place: str
) -> None:
    """It takes 8 KB a millisecond at most, so a millisecond's worth is next to nothing."""
    options = {"window_bytes": 1 << 20} if place != "in process" else {}
    with joined(server, place, 1, [(0, 0, 0)], **options) as ends:
        for pipes in (ends.source, ends.target):
            pipes.declare(EDGE, 1, wait_ns=1_000_000)
        sent = [0]
        ahead = running(lambda: _put_until_refused(ends.source, 0, sent))
        wait_until(lambda: ends.target.waiting_bytes() >= 400_000)
        taken, left = 0, 1 << 30
        while left > 128_000:
            [(_, item)] = ends.target.take_many([(EDGE, 0)], 1, 1)
            assert isinstance(item, Rows)
            taken += item.batch.nbytes
            left = sent[0] - taken
            time.sleep(0.001)  # its work
        assert ahead.is_alive()


def _put_until_refused(pipes: Pipes, partition: int, sent: list[int] | None = None) -> None:
    """Adds up in `sent` how many bytes went in."""
    rows = batch(*range(1000))
    try:
        while True:
            pipes.put([((EDGE, partition), Rows(0, rows))])
            if sent is not None:
                sent[0] += rows.nbytes
    except CancelledError:
        return


def _drain(pipes: Pipes, partition: int, rows: int) -> None:
    while rows:
        _, item = pipes.take([(EDGE, partition)])
        assert isinstance(item, Rows)
        rows -= item.batch.num_rows


def test_no_event_passes_a_row_that_has_no_credit(server: Server) -> None:
    with joined(server, "flight", 2, [(0, 0, 0), (0, 0, 1)], window_bytes=1) as ends:
        sent = [batch(*range(2000)) for _ in range(4)]
        work = [((EDGE, 0), Rows(0, rows)) for rows in sent] + [
            ((EDGE, p), Mark(0, Event.BARRIER, 7)) for p in (0, 1)
        ]
        running(lambda: ends.source.put(work))
        _, first = ends.target.take([(EDGE, 1)])
        assert isinstance(first, Mark)  # the other partition's barrier comes while rows wait
        for _ in sent:
            _, item = ends.target.take([(EDGE, 0)])
            assert isinstance(item, Rows)
        _, last = ends.target.take([(EDGE, 0)])
        assert isinstance(last, Mark)
        assert last.value == 7


@pytest.mark.parametrize("place", PLACES)
def test_a_consumer_that_has_enough_frees_its_producers(server: Server, place: str) -> None:
    with joined(server, place, 1, [(0, 0, 0)]) as ends:
        ends.source.put([((EDGE, 0), Rows(0, batch(1, 2, 3)))])
        _drain(ends.target, 0, 3)
        ends.target.close((EDGE, 0))
        big = batch(*range(5000))
        put = running(lambda: [ends.source.put([((EDGE, 0), Rows(0, big))]) for _ in range(500)])
        put.join(30)
        assert not put.is_alive()
        assert not ends.source.wanted(EDGE)


def test_another_attempt_is_refused_by_name(server: Server) -> None:
    with joined(server, "flight", 1, [(0, 2, 0)], agent="agent-9") as ends:
        server.jobs.begin(JOB, EDGE, 0, 1)
        ends.source.put([((EDGE, 0), Rows(0, batch(1)))])
        with pytest.raises(CancelledError, match="an exchange with another agent failed"):
            ends.target.take([(EDGE, 0)])
        error = _failure(ends)
        assert isinstance(error, PartitionLostError)
        assert "attempt 2 was expected" in error.message
        assert (error.where.agent, error.where.node, error.where.task) == ("agent-9", NODE, "0#1")


def _failure(ends: Ends) -> FabricError:
    """What the exchange failed with; the consumer hears of it a moment before it has ended."""
    for _ in range(1000):
        try:
            ends.exchange.check()
        except FabricError as error:
            return error
        threading.Event().wait(0.01)
    raise AssertionError("the exchange did not fail")


def test_a_cancelled_job_says_so_at_the_other_end(server: Server) -> None:
    with joined(server, "flight", 1, [(0, 0, 0)]) as ends:
        ends.source.cancel("the user stopped it")
        with pytest.raises(CancelledError, match="the user stopped it"):
            ends.target.take([(EDGE, 0)])


def test_a_job_nobody_knows_is_refused(server: Server) -> None:
    target = Pipes("job-2")
    exchange = Exchange(
        server.connections, target, address=server.address, token=server.token, job="job-2",
        node=NODE, edge=EDGE, n_partitions=1, producers=[(0, 0, 0)], schema=SCHEMA,
    )  # fmt: skip
    target.declare(EDGE, 1)
    with pytest.raises(CancelledError, match="no tasks on this agent"):
        target.take([(EDGE, 0)])
    assert isinstance(_failure(Ends(target, target, exchange)), NotFoundError)


def test_compressed_rows_need_fewer_bytes(server: Server) -> None:
    rows = batch(*range(20_000))
    sent = {}
    for compression in CODECS:
        with CutProxy(int(server.address.rpartition(":")[2])) as meter:
            there = replace(server, address=meter.address)
            with joined(there, "flight", 1, [(0, 0, 0)], compression=compression) as ends:
                ends.source.put([((EDGE, 0), Rows(0, rows))])
                ends.source.put([((EDGE, 0), Mark(0, Event.END, 0, rows.num_rows))])
                found = consume(ends, [0], 1)[0, 0]
                assert rows_of(found)[:-1] == list(told(Rows(0, rows))[1:])
            sent[compression] = sum(meter.answered)
    assert sent[""] > rows.nbytes
    assert max(sent["lz4"], sent["zstd"]) < sent[""] / 1.5


def test_a_codec_nobody_knows_is_refused(server: Server) -> None:
    with joined(server, "flight", 1, [(0, 0, 0)], compression="lzo") as ends:
        with pytest.raises(CancelledError, match="can't be compressed by codec 3"):
            ends.target.take([(EDGE, 0)])
        error = _failure(ends)
    assert isinstance(error, NotFoundError)
    assert error.where.node == NODE


def test_strangers_are_refused(server: Server) -> None:
    target = Pipes(JOB)
    exchange = Exchange(
        server.connections, target, address=server.address, token=server.strangers_token, job=JOB,
        node=NODE, edge=EDGE, n_partitions=1, producers=[(0, 0, 0)], schema=SCHEMA,
    )  # fmt: skip
    target.declare(EDGE, 1)
    with pytest.raises(CancelledError):
        target.take([(EDGE, 0)])
    assert "scope" in str(_failure(Ends(target, target, exchange)))


@settings(max_examples=25, deadline=None)
@given(
    n_partitions=st.integers(1, 3),
    steps=st.lists(st.lists(STEP, max_size=25), min_size=1, max_size=3),
    window=st.sampled_from([1, 3000, 1 << 20]),
    broken=st.tuples(st.integers(0, 20_000), st.sampled_from(["reset", "close"])),
)
def test_a_cut_exchange_is_whole_or_says_what_is_lost(
    server: Server, n_partitions: int, steps: list[list[Any]], window: int, broken: tuple[int, How]
) -> None:
    cut, how = broken
    producers = [(task, 0, p) for task in range(len(steps)) for p in range(n_partitions)]
    all_items = [items_of(task, some, n_partitions) for task, some in enumerate(steps)]
    expected: dict[tuple[int, int], list[Said]] = defaultdict(list)
    for task, items in enumerate(all_items):
        for partition, item in items:
            expected[task, partition].append(told(item))
    found: dict[tuple[int, int], list[Said]] = defaultdict(list)
    port = int(server.address.rpartition(":")[2])
    with CutProxy(port, [cut], how) as proxy, closing(Connections()) as connections:
        behind = replace(server, address=proxy.address, connections=connections)
        options = {"window_bytes": window, "agent": "agent-9"}
        with joined(behind, "flight", n_partitions, producers, **options) as ends:
            threads = [running(partial(_put_all, ends.source, items)) for items in all_items]
            try:
                consume(ends, list(range(n_partitions)), len(producers), found)
            except CancelledError:
                error = _failure(ends)
                assert isinstance(error, (PartitionLostError, PeerLostError)), error
                assert (error.where.agent, error.where.node) == ("agent-9", NODE)
                for key, said in found.items():  # nothing doubled, out of order or made up
                    rows = rows_of(said)
                    assert rows == rows_of(expected[key])[: len(rows)]
            else:
                assert {k: rows_of(v) for k, v in found.items()} == {
                    k: rows_of(v) for k, v in expected.items()
                }
        for thread in threads:
            thread.join(30)


def _put_all(pipes: Pipes, items: list[tuple[int, Rows | Mark]]) -> None:
    """Until the job is cancelled."""
    with suppress(CancelledError):
        for partition, item in items:
            pipes.put([((EDGE, partition), item)])
