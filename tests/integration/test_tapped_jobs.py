"""Taps of running jobs: real agents, a plain Flight client for each partition and agent."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric import col
from fabric.errors import NotFoundError
from fabric.io.sinks.gate import gate_file
from fabric.testing import Gate
from tests.support.wait import wait_until

N_ROWS = 600_000
TABLE = pa.table({"k": list(range(N_ROWS)), "s": [f"text {n % 97}" for n in range(N_ROWS)]})
DEADLINE_S = 60.0


class Tap:
    """One endpoint, tapped."""

    def __init__(self, partition: fabric.Partition, token: str) -> None:
        self.client = flight.connect(partition.locations[0])
        auth = [(b"authorization", b"Bearer " + token.encode())]
        options = flight.FlightCallOptions(headers=auth, timeout=DEADLINE_S)
        self.reader = self.client.do_get(flight.Ticket(partition.ticket), options)

    def read(self) -> tuple[list[int], dict[str, int]]:
        """Every key to the end, and the last counts."""
        keys: list[int] = []
        for chunk in self.reader:
            keys += chunk.data["k"].to_pylist()
            said = json.loads(chunk.app_metadata.to_pybytes())
        return keys, said


def opened(partitions: list[fabric.Partition], token: str) -> list[Tap]:
    """Taps of what has not ended: a consumer at a gate holds up producers of its own agent."""
    taps = []
    for partition in partitions:
        try:
            taps.append(Tap(partition, token))
        except flight.FlightServerError as error:  # all its rows wait on the other agent
            assert "its rows were not kept" in str(error)  # noqa: PT017
    return taps


def held(frame: fabric.DataFrame, gate: Gate) -> fabric.DataFrame:
    """Rows go on when the gate is open."""
    path = str(gate_file(gate.name))

    def hold(values: pa.Array) -> pa.Array:
        import os
        import time

        while not os.path.exists(path):
            time.sleep(0.02)
        return values

    return frame.with_columns(held=fabric.arrow_udf(hold, returns="int64")("k"))


def flowing(session: fabric.Session, gate: Gate) -> fabric.DataFrame:
    """Keys dealt out, then exchanged while they flow, and held there."""
    batches = TABLE.to_batches(max_chunksize=7_777)
    dealt = session.read_arrow(pa.Table.from_batches(batches)).exchange()
    return held(dealt.exchange("k", mode="pipelined").named("moved"), gate)


@pytest.mark.parametrize("lossless", [False, True])
def test_a_job_at_a_gate_is_tapped(session: fabric.Session, lossless: bool) -> None:
    gate = Gate()
    with gate, session.submit(flowing(session, gate)) as job, ThreadPoolExecutor(8) as pool:
        found = job.partitions("moved", lossless=lossless)
        taps = opened(found, session.token)
        gate.open()
        read = list(pool.map(Tap.read, taps))
        job.wait(DEADLINE_S)
        with pytest.raises(NotFoundError, match="its rows were not kept"):
            job.partitions("moved")
    keys = Counter(key for some, _ in read for key in some)
    assert len(found) == 4  # two partitions, each from two agents
    assert len(taps) >= 2
    assert set(keys.values()) <= {1}
    assert set(keys) <= set(range(N_ROWS))
    assert all(said["rows"] == len(some) and said["end"] for some, said in read)
    skipped = sum(said["skipped"] for _, said in read)
    # The consumer of a partition on its own agent takes a megabyte at most before the gate.
    assert len(keys) + skipped > N_ROWS // 8
    assert skipped == 0 or not lossless


def end_of(tap: Tap) -> str:
    """The error a tap ends with, or "whole" when it has come to its edge's end before."""
    try:
        _, said = tap.read()
    except flight.FlightServerError as error:
        return str(error)
    return "whole" if said["end"] else ""


def test_a_cancelled_job_ends_its_taps(session: fabric.Session) -> None:
    gate = Gate()
    with gate, session.submit(flowing(session, gate)) as job, ThreadPoolExecutor(1) as pool:
        taps = opened(job.partitions("moved"), session.token)
        cancelled = pool.submit(job.cancel)
        told = [end_of(tap) for tap in taps]
        gate.open()
        cancelled.result()
    cancelled_or_whole = [
        t == "whole" or ("CancelledError" in t and "the job was" in t) for t in told
    ]
    assert all(cancelled_or_whole), told


def test_a_step_inside_a_stage_is_tapped(session: fabric.Session) -> None:
    dealt = session.read_arrow(TABLE).exchange(n_partitions=2)
    kept = dealt.filter(col("k") % 2 > 0).named("kept")
    gate = Gate()
    plain = held(kept, gate).filter(col("k") > 100)
    with (
        gate,
        session.submit(plain) as job,
        pytest.raises(NotFoundError, match=r"configure\(path, tap=True\)"),
    ):
        job.partitions("kept")
    gate = Gate()
    plain = held(kept, gate).filter(col("k") > 100)
    tapped = plain.configure("kept", tap=True)
    with gate, session.submit(tapped) as job, ThreadPoolExecutor(8) as pool:
        taps = opened(job.partitions("kept"), session.token)
        gate.open()
        read = list(pool.map(Tap.read, taps))
        job.wait(DEADLINE_S)
    assert len(taps) == 2  # each partition has one producer
    keys = [key for some, _ in read for key in some]
    assert all(key % 2 for key in keys)
    assert len(keys) == len(set(keys))
    assert len(keys) + sum(said["skipped"] for _, said in read) > N_ROWS // 8


def begun(job: fabric.Job) -> bool:
    """Whether its exchange is there."""
    with suppress(NotFoundError):
        return bool(job.partitions("moved"))
    return False


def test_a_stream_of_this_process_is_tapped() -> None:
    with fabric.connect(serve=True, parallelism=2) as session:
        made = fabric.streams.generator(rows_per_s=20_000, n_splits=2)
        moved = made.select(k=col("row")).named("moved").configure("moved", tap=True)
        with session.submit(moved.filter(col("k") < 0)) as job:
            wait_until(lambda: begun(job), DEADLINE_S)
            for tap in opened(job.partitions("moved", lossless=True), session.token):
                first = next(tap.reader)
                assert first.data.num_rows > 0
                assert json.loads(first.app_metadata.to_pybytes())["skipped"] == 0
