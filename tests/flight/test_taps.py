"""Taps: pipelined edges read by any Flight client, beside their consumer and while they flow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric.agent.pipes import Mark, Pipes, Rows
from fabric.control import control_pb2 as pb
from fabric.flight.header import Event
from tests.support.flight_rig import FlightRig

JOB, NODE, EDGE, N_PARTITIONS = "job-1", "moved", 3, 2
SCHEMA = pa.schema([("n", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string()))])
IDLE_S = 0.5
"""After which a dead lossless tap is cut: of a rig for that alone, as others may wait longer."""


def batch(begin: int, n: int = 10) -> pa.RecordBatch:
    numbers = np.arange(begin, begin + n)
    words = pa.array((numbers % 3).astype(np.int8))
    found = pa.DictionaryArray.from_arrays(words, pa.array(["w0", "w1", "w2"]))
    return pa.RecordBatch.from_arrays([pa.array(numbers), found], schema=SCHEMA)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightRig]:
    with FlightRig(tmp_path_factory.mktemp("rig"), 2, tap_idle_s=60.0) as made:
        yield made


class Edge:
    """A pipelined edge with producers 0 and 1 on agent ``a0``, driven by the test."""

    def __init__(self, jobs: JobPipes, pipes: Pipes) -> None:
        self.jobs, self.pipes = jobs, pipes
        self.sent = [[0] * N_PARTITIONS for _ in range(2)]

    def put(self, rows: pa.RecordBatch, partition: int = 0, producer: int = 0) -> None:
        self.sent[producer][partition] += rows.num_rows
        self.pipes.put([((EDGE, partition), Rows(producer, rows))])

    def end(self) -> None:
        for producer, sent in enumerate(self.sent):
            ends = [Mark(producer, Event.END, 0, total) for total in sent]
            self.pipes.put([((EDGE, p), end) for p, end in enumerate(ends)])

    def take(self, n: int = 1, partition: int = 0) -> list[Rows | Mark]:
        """The next `n` items, as their consumer takes them."""
        return [self.pipes.take([(EDGE, partition)])[1] for _ in range(n)]

    def flow(self, *batches: pa.RecordBatch) -> None:
        """Put and take, one after the other."""
        for rows in batches:
            self.put(rows)
            self.take()


def location(state: pb.JobState = pb.JOB_UNKNOWN, error: str = "") -> pb.EdgeLocation:
    producers = [pb.Producer(task=task, agent_id="a0") for task in range(2)]
    return pb.EdgeLocation(
        job_id=JOB, node_path=NODE, edge=EDGE, schema=SCHEMA.serialize().to_pybytes(),
        n_partitions=N_PARTITIONS, kind=pb.EDGE_HASH, mode=pb.MODE_PIPELINED,
        producers=producers, n_producers=2, state=state, error=error,
    )  # fmt: skip


@pytest.fixture
def edge(rig: FlightRig) -> Iterator[Edge]:
    with opened(rig) as made:
        yield made


@contextmanager
def opened(rig: FlightRig) -> Iterator[Edge]:
    with told(rig):
        pipes = Pipes(JOB)
        pipes.declare(EDGE, N_PARTITIONS)
        rig.exchanges["a0"].add(JOB, pipes)
        yield Edge(rig.exchanges["a0"], pipes)
        rig.exchanges["a0"].remove(JOB)
        pipes.cancel("the test is over")


@contextmanager
def told(rig: FlightRig) -> Iterator[None]:
    rig.control.edges.append(location())
    rig.control.push(edges=[location()])
    yield
    rig.control.edges.clear()
    rig.control.push(dropped_jobs=[JOB])


class Tap:
    """One tap of a plain pyarrow client."""

    def __init__(
        self, rig: FlightRig, mode: str = "", partition: int = 0, agent: str = "a0"
    ) -> None:
        self.client = flight.connect(rig.address(agent))
        auth = [(b"authorization", b"Bearer " + rig.token("read").encode())]
        self.options = flight.FlightCallOptions(headers=auth, timeout=60)
        header = [(b"fabric.tap", mode.encode())] if mode else []
        asking = flight.FlightCallOptions(headers=auth + header, timeout=60)
        wanted = flight.FlightDescriptor.for_path("job", JOB, NODE, str(partition))
        self.info = self.client.get_flight_info(wanted, asking)
        (endpoint,) = self.info.endpoints
        self.ticket = endpoint.ticket
        self.reader = self.client.do_get(endpoint.ticket, self.options)

    def chunk(self) -> tuple[list[int], dict[str, int]]:
        """The numbers of the next message, and what it says."""
        chunk = self.reader.read_chunk()
        return chunk.data["n"].to_pylist(), json.loads(chunk.app_metadata.to_pybytes())

    def rest(self) -> tuple[list[int], dict[str, int]]:
        """All numbers to the end, and what the last message says."""
        numbers: list[int] = []
        said: dict[str, int] = {}
        while not said.get("end"):
            more, said = self.chunk()
            numbers += more
        with pytest.raises(StopIteration):
            self.reader.read_chunk()
        return numbers, said

    def close(self) -> None:
        self.reader.cancel()
        self.client.close()


@pytest.mark.parametrize("agent", ["a0", "a1"])
def test_rows_flow_from_the_next_batch_on(rig: FlightRig, edge: Edge, agent: str) -> None:
    edge.flow(batch(0), batch(10))
    tap = Tap(rig, agent=agent)
    if agent == "a1":  # it hears from a0 that the tap is there
        assert tap.chunk() == ([], {"rows": 0, "skipped": 0, "end": False})
    for begin in (20, 30, 40):
        edge.flow(batch(begin))
        numbers, said = tap.chunk()
        assert numbers == list(range(begin, begin + 10))
        assert said == {"rows": begin - 10, "skipped": 0, "end": False}
    edge.end()
    edge.take(2)
    assert tap.rest() == ([], {"rows": 30, "skipped": 0, "end": True})


def test_a_slow_lossy_tap_skips_and_counts(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    n_rows, n_batches = 100_000, 200  # 180 MB: more than queue, server and client hold
    for number in range(n_batches):
        edge.flow(batch(number * n_rows, n_rows))
    edge.end()
    edge.take(2)  # the job is done: nothing waited for the tap
    numbers, said = tap.rest()
    assert said["skipped"] > 0
    assert len(numbers) == said["rows"]
    assert said["rows"] + said["skipped"] == n_rows * n_batches
    assert numbers == sorted(numbers)


def test_a_lossless_tap_gets_every_row(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig, "lossless")
    n_rows, n_batches = 20_000, 200

    def work() -> None:
        for number in range(n_batches):
            edge.flow(batch(number * n_rows, n_rows))
        edge.end()
        edge.take(2)

    worker = threading.Thread(target=work)
    worker.start()
    numbers, said = tap.rest()
    worker.join()
    assert numbers == list(range(n_rows * n_batches))
    assert said == {"rows": n_rows * n_batches, "skipped": 0, "end": True}


def test_a_dead_lossless_tap_is_cut(tmp_path: Path) -> None:
    with FlightRig(tmp_path, 2, tap_idle_s=IDLE_S) as rig, opened(rig) as edge:
        tap = Tap(rig, "lossless")
        n_rows, n_batches = 100_000, 200
        for number in range(n_batches):  # waits for the tap, until it is cut
            edge.flow(batch(number * n_rows, n_rows))
        numbers: list[int] = []
        with pytest.raises(flight.FlightUnavailableError, match="waited for this lossless tap"):
            numbers += (n for some, _ in iter(tap.chunk, None) for n in some)
        assert numbers == list(range(len(numbers)))


def test_two_taps_at_once(rig: FlightRig, edge: Edge) -> None:
    first = Tap(rig)
    edge.flow(batch(0))
    second = Tap(rig, "lossless")
    edge.flow(batch(10), batch(20))
    edge.end()
    edge.take(2)
    assert first.rest() == (list(range(30)), {"rows": 30, "skipped": 0, "end": True})
    assert second.rest() == (list(range(10, 30)), {"rows": 20, "skipped": 0, "end": True})


def test_rows_of_producers_elsewhere_are_left_to_their_own_agent(
    rig: FlightRig, edge: Edge
) -> None:
    tap = Tap(rig, "lossless")
    edge.flow(batch(0))
    edge.pipes.put([((EDGE, 0), Rows(7, batch(900)))])  # what an exchange brought from there
    edge.take()
    edge.end()
    edge.take(2)
    assert tap.rest() == (list(range(10)), {"rows": 10, "skipped": 0, "end": True})


def test_a_tap_that_goes_away_holds_nobody_up(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig, "lossless")
    edge.flow(batch(0))
    tap.close()
    for number in range(200):
        edge.flow(batch(number * 100_000, 100_000))


def test_a_tap_before_the_first_task_sees_all(rig: FlightRig) -> None:
    with told(rig):
        tap = Tap(rig, "lossless")
        pipes = Pipes(JOB)
        pipes.declare(EDGE, N_PARTITIONS)
        jobs = rig.exchanges["a0"]
        jobs.add(JOB, pipes)
        edge = Edge(jobs, pipes)
        edge.flow(batch(0), batch(10))
        edge.end()
        edge.take(2)
        assert tap.rest()[0] == list(range(20))
        jobs.remove(JOB)


def test_a_consumer_that_has_enough_ends_the_tap_with_the_job(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    edge.flow(batch(0))
    edge.pipes.close((EDGE, 0))  # by a limit, or because the consumer failed: who knows yet?
    rig.control.push(edges=[location(pb.JOB_FINISHED)])
    assert tap.rest() == (list(range(10)), {"rows": 10, "skipped": 0, "end": True})


def test_a_consumer_that_fails_fails_the_tap(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    edge.pipes.close((EDGE, 0))
    rig.control.push(edges=[location(pb.JOB_FAILED, "overflow in row 3")])
    with pytest.raises(flight.FlightServerError, match="the job failed: overflow in row 3"):
        tap.chunk()


def test_a_job_that_fails_fails_its_taps(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    edge.pipes.cancel("division by zero in row 7")
    with pytest.raises(flight.FlightServerError, match="division by zero in row 7"):
        tap.chunk()


def test_a_released_job_ends_its_taps(rig: FlightRig) -> None:
    with told(rig):
        tap = Tap(rig)  # of a job that never ran on its agent
    with pytest.raises(flight.FlightServerError, match="the job was released"):
        tap.chunk()


def test_after_the_end_there_is_nothing_to_tap(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    edge.end()
    edge.take(2)
    assert tap.rest()[0] == []
    with pytest.raises(flight.FlightServerError, match="its rows were not kept"):
        tap.client.do_get(tap.ticket, tap.options).read_all()
    rig.control.push(edges=[location(pb.JOB_FINISHED)])
    with pytest.raises(flight.FlightServerError, match="its rows were not kept"):
        Tap(rig)


def test_messages_stay_below_four_mib(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    edge.flow(batch(0, 1_000_000))
    edge.end()
    edge.take(2)
    first, said = tap.chunk()
    assert len(first) < 500_000
    assert said == {"rows": 1_000_000, "skipped": 0, "end": False}
    assert len(first) + len(tap.rest()[0]) == 1_000_000


def test_what_is_listed(rig: FlightRig, edge: Edge) -> None:
    with flight.connect(rig.address("a1")) as client:
        auth = [(b"authorization", b"Bearer " + rig.token("read").encode())]
        options = flight.FlightCallOptions(headers=auth)
        (info,) = client.list_flights(f"job/{JOB}".encode(), options)
    assert info.descriptor.path == [b"job", JOB.encode(), NODE.encode()]
    assert [end.app_metadata for end in info.endpoints] == [b"0", b"1"]
    for end in info.endpoints:
        uris = [place.uri for place in end.locations]
        assert uris == [rig.address("a0").encode(), b"arrow-flight-reuse-connection://?"]
    assert json.loads(info.app_metadata) == {"complete": False, "result": False, "tap": True}
    assert info.total_records == -1


def test_the_session_says_which_tap(rig: FlightRig, edge: Edge) -> None:
    with flight.connect(rig.address()) as client:
        auth = [(b"authorization", b"Bearer " + rig.token("read", "of-a-session").encode())]
        options = flight.FlightCallOptions(headers=auth)
        wanted = flight.FlightDescriptor.for_path("job", JOB, NODE, "0")

        def set_to(text: str) -> bytes:
            entry = b"\n\nfabric.tap\x12" + bytes([2 + len(text), 10, len(text)]) + text.encode()
            body = b"\n" + bytes([len(entry)]) + entry
            action = flight.Action("SetSessionOptions", body)
            (answer,) = client.do_action(action, options)
            return bytes(answer.body.to_pybytes())

        def tapped() -> int:
            """The mode in the ticket: field 6 of the partition, the last byte before the MAC."""
            return int(client.get_flight_info(wanted, options).endpoints[0].ticket.ticket[-33])

        assert tapped() == 1
        assert set_to("lossless") == b""
        assert tapped() == 2
        assert b"fabric.tap" in set_to("sometimes")
        assert tapped() == 2


def test_a_mode_that_is_none_is_refused(rig: FlightRig, edge: Edge) -> None:
    with pytest.raises(flight.FlightServerError, match="must be 'lossy' or 'lossless', got 'x'"):
        Tap(rig, "x")


def test_nobody_taps_without_a_token(rig: FlightRig, edge: Edge) -> None:
    tap = Tap(rig)
    with pytest.raises(flight.FlightUnauthenticatedError, match=r"(?i)token"):
        tap.client.do_get(tap.ticket).read_all()
    edge.flow(batch(0))  # the consumer is not disturbed
    tap.close()
