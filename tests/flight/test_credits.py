"""Credits of pipelined edges: what may be sent, to the byte, and whom a stopped consumer holds up.

The producers' side is asked by hand, so that every credit is the test's own.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.exchange.exchanges import Exchange, InProcessExchange
from fabric._cython.shuffle.pump.pump import Connections
from fabric.agent.pipes import Item, Mark, Pipes, Rows
from fabric.flight import wire_pb2
from fabric.flight.connections import connect
from fabric.flight.header import Event, decode_header
from tests.support.arrays import batches, examples, rendered
from tests.support.flight_rig import FlightRig

JOB, NODE, EDGE = "job-1", "moved", 4
SLOT_BYTES = 1 << 10  # what a batch costs beside its bytes
EVERYTHING = 1 << 30
Said = tuple[Any, ...]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightRig]:
    with FlightRig(tmp_path_factory.mktemp("rig"), 1) as rig:
        yield rig


# ---- credits by hand


@dataclass
class Account:
    """One partition as the oracle sees it: what waits, what it costs, what may come.

    Only what one producer says is in order.
    """

    waiting: list[tuple[Item, int]] = field(default_factory=list)
    balance: int = 0
    allowed: dict[int, list[Said]] = field(default_factory=lambda: defaultdict(list))
    came: dict[int, list[Said]] = field(default_factory=lambda: defaultdict(list))
    closed: bool = False

    def grant(self, n_bytes: int) -> None:
        """More may come: rows while the balance is positive, and all events in between."""
        self.balance += n_bytes
        while self.waiting and not self.closed:
            item, cost = self.waiting[0]
            if isinstance(item, Rows):
                if self.balance <= 0:
                    return
                self.balance -= cost
            self.allowed[item.producer] += said(item)
            self.waiting.pop(0)

    def brought(self, producer: int, what: list[Said]) -> None:
        """Something came: it must be what was to come next."""
        if what:
            came = self.came[producer]
            came += what
            assert came == self.allowed[producer][: len(came)]

    @property
    def settled(self) -> bool:
        """Whether all that may come has come."""
        return self.came == {producer: some for producer, some in self.allowed.items() if some}


def said(item: Item) -> list[Said]:
    """Rows one by one, or the event."""
    if isinstance(item, Mark):
        return [(Event(item.event), item.value, item.total_rows)]
    return rows_of(item.batch)


def rows_of(batch: pa.RecordBatch) -> list[Said]:
    return list(zip(*(rendered(column) for column in batch.columns), strict=True))


@st.composite
def edges(draw: st.DrawFn) -> tuple[pa.Schema, int, int, list[tuple[int, Item]]]:
    """Schema, partitions, producers, and what they put, in the order in which they do."""
    rows = draw(batches())
    n_partitions, n_producers = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    totals: dict[tuple[int, int], int] = defaultdict(int)
    puts: list[tuple[int, Item]] = []
    for value in range(draw(st.integers(0, 20))):
        partition = draw(st.integers(0, n_partitions - 1))
        producer = draw(st.integers(0, n_producers - 1))
        if draw(st.booleans()):
            puts.append((partition, Mark(producer, Event.BARRIER, value)))
            continue
        batch = rows.slice(draw(st.integers(0, rows.num_rows)))
        totals[producer, partition] += batch.num_rows
        puts.append((partition, Rows(producer, batch)))
    puts += [
        (partition, Mark(producer, Event.END, 0, totals[producer, partition]))
        for producer in range(n_producers)
        for partition in range(n_partitions)
    ]
    return rows.schema, n_partitions, n_producers, puts


def filled(puts: list[tuple[int, Item]], n_partitions: int) -> tuple[Pipes, dict[int, Account]]:
    """The producers' pipes with all that they put, and the oracle's view of it."""
    source = Pipes(JOB)
    source.declare(EDGE, n_partitions, 64)
    accounts = {partition: Account() for partition in range(n_partitions)}
    for partition, item in puts:
        before = source.waiting_bytes()
        source.put([((EDGE, partition), item)])
        cost = source.waiting_bytes() - before + SLOT_BYTES
        accounts[partition].waiting.append((item, cost))
    return source, accounts


class ByHand:
    """The consumers' side of one exchange; use it in a `with`."""

    def __init__(self, rig: FlightRig, schema: pa.Schema, n_partitions: int, n_producers: int):
        numbers = [EDGE, n_partitions, 0]
        for partition in range(n_partitions):
            numbers += [partition, n_producers]
        path = ["exchange", JOB, NODE, *map(str, numbers)]
        header = (b"authorization", f"Bearer {rig.token('agent')}".encode())
        self._client = connect(rig.address())
        self._writer, self._reader = self._client.do_exchange(
            fl.FlightDescriptor.for_path(*path),
            fl.FlightCallOptions(timeout=60, headers=[header]),
        )
        self._writer.begin(schema)

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._reader.cancel()
        self._client.close()

    def grant(
        self,
        grants: Mapping[int, int],
        closed: tuple[int, ...] = (),
        silent: Mapping[int, int] | None = None,
    ) -> None:
        """So many bytes more may come of each partition; nothing more of those `closed`.

        Nothing of those that are `silent` matters before such watermarks.
        """
        credit = wire_pb2.Credit(
            version=1,
            grants=[wire_pb2.PartitionCredit(partition=p, bytes=n) for p, n in grants.items()],
            closed=[wire_pb2.PartitionCredit(partition=p) for p in closed],
            silent=[
                wire_pb2.SilentPartition(partition=p, until_us=n) for p, n in (silent or {}).items()
            ],
        )
        self._writer.write_metadata(credit.SerializeToString())

    def take(self, accounts: Mapping[int, Account]) -> bool:
        """One message; whether it was not the end."""
        chunk = self._reader.read_chunk()
        if chunk.data is None:
            end = wire_pb2.ExchangeEnd.FromString(chunk.app_metadata.to_pybytes())
            assert end.error == b""
            return False
        header = decode_header(chunk.app_metadata.to_pybytes())
        begin = 0
        for partition, n_rows in header.partitions:
            if header.event is Event.ROWS:
                what = rows_of(chunk.data.slice(begin, n_rows))
                begin += n_rows
            else:
                what = [(header.event, header.event_value, header.total_rows)]
            accounts[partition].brought(header.producer, what)
        return True

    def end(self) -> None:
        """Say that this side has ended; the other one's call ends then."""
        self._writer.done_writing()
        with pytest.raises(StopIteration):
            self._reader.read_chunk()


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 500, SLOT_BYTES + 1, 4000])), max_size=8
)


@examples(0.7)
@given(edge=edges(), steps=STEPS, closes=st.none() | st.integers(0, 2))
def test_what_comes_is_what_credits_allow(
    rig: FlightRig,
    edge: tuple[pa.Schema, int, int, list[tuple[int, Item]]],
    steps: list[tuple[int, int]],
    closes: int | None,
) -> None:
    """Events between rows that wait for credit wait with them; those before the rows do not."""
    schema, n_partitions, n_producers, puts = edge
    source, accounts = filled(puts, n_partitions)
    with ExitStack() as stack:
        jobs = rig.exchanges["a0"]
        jobs.add(JOB, source)
        stack.callback(jobs.remove, JOB)
        stack.callback(source.cancel, "the test is over")
        by_hand = stack.enter_context(ByHand(rig, schema, n_partitions, n_producers))
        for account in accounts.values():
            account.grant(0)  # the events before the first row
        for partition, n_bytes in [(0, 0), *steps]:
            at = partition % n_partitions
            accounts[at].grant(n_bytes)
            by_hand.grant({at: n_bytes})
            while not all(account.settled for account in accounts.values()):
                assert by_hand.take(accounts)
        if closes is not None:
            accounts[closes % n_partitions].closed = True
            by_hand.grant({}, (closes % n_partitions,))
        for account in accounts.values():
            account.grant(EVERYTHING)
        by_hand.grant(dict.fromkeys(accounts, EVERYTHING))
        while by_hand.take(accounts):
            pass
        by_hand.end()
        for account in accounts.values():
            assert account.settled
            assert account.closed or not account.waiting


class Free(Account):
    """Takes whatever comes."""

    def brought(self, producer: int, what: list[Said]) -> None:
        self.came[producer] += what


def test_what_is_for_a_silent_consumer_goes_together(rig: FlightRig) -> None:
    """Rows behind rows; of watermarks the last before a barrier and before the end."""
    rows = pa.record_batch({"n": [1]})
    first = Rows(0, rows)
    others: list[Item] = [
        Mark(0, Event.WATERMARK, 5), Mark(0, Event.WATERMARK, 7), Rows(0, rows),
        Mark(0, Event.BARRIER, 9), Rows(0, rows), Mark(0, Event.WATERMARK, 1_000),
        Mark(0, Event.END, 0, 3),
    ]  # fmt: skip
    source, accounts = Pipes(JOB), {0: Free(), 1: Free()}
    source.declare(EDGE, 2, 64)
    with ExitStack() as stack:
        jobs = rig.exchanges["a0"]
        jobs.add(JOB, source)
        stack.callback(jobs.remove, JOB)
        stack.callback(source.cancel, "the test is over")
        source.put([((EDGE, partition), first) for partition in accounts])
        by_hand = stack.enter_context(ByHand(rig, rows.schema, 2, 1))
        by_hand.grant(dict.fromkeys(accounts, EVERYTHING), silent=dict.fromkeys(accounts, 1_000))
        assert by_hand.take(accounts)  # from here on they are silent
        source.put([((EDGE, partition), item) for item in others for partition in accounts])
        while by_hand.take(accounts):
            pass
        by_hand.end()
    barrier, end = (Event.BARRIER, 9, 0), (Event.END, 0, 3)
    for account in accounts.values():
        came = account.came[0]
        times = [(at, one) for at, one in enumerate(came) if one[0] is Event.WATERMARK]
        assert [one for _, one in times][-2:] == [(Event.WATERMARK, t, 0) for t in (7, 1_000)]
        assert times[-2][0] < came.index(barrier) < times[-1][0] < came.index(end)
        rest = [one for one in came if one[0] is not Event.WATERMARK]
        assert rest == [*rows_of(rows) * 2, barrier, *rows_of(rows), end]


# ---- a consumer that stops


N_BATCHES, WINDOW_BYTES = 40, 4096
ROWS = pa.record_batch({"n": range(1000), "s": [f"text {n}" for n in range(1000)]})
EDGES = {"stuck": ("job-1", 1), "beside it": ("job-1", 2), "another job": ("job-2", 1)}


def running(work: Any, *given: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=given, daemon=True)
    thread.start()
    return thread


def put_all(source: Pipes, edge: int) -> None:
    """To both partitions in turn."""
    for n in range(2 * N_BATCHES):
        source.put([((edge, n % 2), Rows(0, ROWS.slice(n)))])


def take_all(target: Pipes, edge: int, partition: int) -> None:
    """The rows of one partition, and no more."""
    left = [ROWS.num_rows - n for n in range(partition, 2 * N_BATCHES, 2)]
    n_rows = sum(left)
    while n_rows:
        _, item = target.take([(edge, partition)])
        assert isinstance(item, Rows)
        n_rows -= item.batch.num_rows


@pytest.mark.parametrize("place", ["flight", "in process"])
def test_a_consumer_that_stops_stalls_its_own_edge_alone(rig: FlightRig, place: str) -> None:
    with ExitStack() as stack:
        jobs, connections = rig.exchanges["a0"], Connections()
        sources = {job: Pipes(job) for job, _ in EDGES.values()}
        targets = {job: Pipes(job) for job in sources}
        stack.callback(connections.close)
        for job, source in sources.items():
            jobs.add(job, source)
            stack.callback(jobs.remove, job)
        for job, edge in EDGES.values():
            same: dict[str, Any] = {
                "job": job, "node": NODE, "edge": edge, "n_partitions": 2,
                "producers": [(0, 0, 0), (0, 0, 1)],
            }  # fmt: skip
            exchange: Exchange | InProcessExchange
            if place == "flight":
                exchange = Exchange(
                    connections, targets[job], address=rig.address(), token=rig.token("agent"),
                    schema=ROWS.schema, window_bytes=WINDOW_BYTES, **same,
                )  # fmt: skip
            else:
                exchange = InProcessExchange(jobs, targets[job], **same)
            stack.callback(exchange.close)
            for pipes in (sources[job], targets[job]):
                pipes.declare(edge, 2, 2)
        for pipes in (*sources.values(), *targets.values()):
            stack.callback(pipes.cancel, "the test is over")
        puts = {name: running(put_all, sources[job], edge) for name, (job, edge) in EDGES.items()}
        takes = [
            running(take_all, targets[job], edge, partition)
            for name, (job, edge) in EDGES.items()
            for partition in (0, 1)
            if name != "stuck"
        ]
        for thread in (*takes, puts["beside it"], puts["another job"]):
            thread.join(60)
            assert not thread.is_alive()
        assert puts["stuck"].is_alive()
        takes = [running(take_all, targets["job-1"], 1, partition) for partition in (0, 1)]
        for thread in (*takes, puts["stuck"]):
            thread.join(60)
            assert not thread.is_alive()
