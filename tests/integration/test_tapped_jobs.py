"""Taps of running jobs: real agents, a plain Flight client for each partition and agent."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric import col
from fabric.errors import NotFoundError
from fabric.plan.nodes import Plan, Sink
from fabric.testing import Gate

N_ROWS = 300_000
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


def flowing(session: fabric.Session) -> fabric.DataFrame:
    """Keys dealt out, then exchanged while they flow."""
    batches = TABLE.to_batches(max_chunksize=7_777)
    dealt = session.read_arrow(pa.Table.from_batches(batches)).exchange()
    return dealt.exchange("k", mode="pipelined").named("moved").filter(col("k") >= 0)


@pytest.mark.parametrize("lossless", [False, True])
def test_a_job_at_a_gate_is_tapped(session: fabric.Session, lossless: bool) -> None:
    plan = Plan(Sink(flowing(session).plan.root, (gate := Gate()).target))
    with gate, session.submit(plan) as job, ThreadPoolExecutor(8) as pool:
        found = job.partitions("moved", lossless=lossless)
        taps = [Tap(partition, session.token) for partition in found]
        gate.open()
        read = list(pool.map(Tap.read, taps))
        job.wait(DEADLINE_S)
        with pytest.raises(NotFoundError, match="its rows were not kept"):
            job.partitions("moved")
    keys = Counter(key for some, _ in read for key in some)
    assert len(taps) == 4  # two partitions, each from two agents
    assert set(keys.values()) <= {1}
    assert set(keys) <= set(range(N_ROWS))
    assert all(said["rows"] == len(some) and said["end"] for some, said in read)
    skipped = sum(said["skipped"] for _, said in read)
    # The consumer of a partition on its own agent takes a megabyte at most before the gate.
    assert len(keys) + skipped > N_ROWS // 8
    assert skipped == 0 or not lossless


def test_a_cancelled_job_ends_its_taps(session: fabric.Session) -> None:
    plan = Plan(Sink(flowing(session).plan.root, (gate := Gate()).target))
    with gate, session.submit(plan) as job:
        tap = Tap(job.partitions("moved")[0], session.token)
        job.cancel()
        with pytest.raises(flight.FlightServerError, match=r"CancelledError: .*the job was"):
            tap.read()


def test_a_step_inside_a_stage_is_tapped(session: fabric.Session) -> None:
    dealt = session.read_arrow(TABLE).exchange(n_partitions=2)
    kept = dealt.filter(col("k") % 2 > 0).named("kept")
    plain = kept.with_columns(twice=col("k") * 2).filter(col("twice") > 100)
    with session.submit(plain) as job:
        with pytest.raises(NotFoundError, match=r"configure\(path, tap=True\)"):
            job.partitions("kept")
        job.wait(DEADLINE_S)
    tapped = plain.configure("kept", tap=True)
    plan = Plan(Sink(tapped.plan.root, (gate := Gate()).target))
    with gate, session.submit(plan) as job, ThreadPoolExecutor(8) as pool:
        taps = [Tap(partition, session.token) for partition in job.partitions("kept")]
        gate.open()
        read = list(pool.map(Tap.read, taps))
        job.wait(DEADLINE_S)
    assert len(taps) == 2  # each partition has one producer
    keys = [key for some, _ in read for key in some]
    assert all(key % 2 for key in keys)
    assert len(keys) == len(set(keys))
    assert len(keys) + sum(said["skipped"] for _, said in read) > 0
