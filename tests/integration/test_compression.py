"""Edges that compress: the same rows everywhere, fewer bytes between agents, errors with a name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric import col, max
from fabric.clients.demo.checksum import checksum
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS = 60_000
TABLE = pa.table({
    "k": [n * 7919 % 10_007 for n in range(N_ROWS)],
    "s": [f"a text that comes again {n % 97}" for n in range(N_ROWS)],
    "d": pa.array([f"w{n % 5}" for n in range(N_ROWS)]).dictionary_encode(),
    "v": pa.array([f"a view of a text {n % 31}" for n in range(N_ROWS)], pa.string_view()),
    "l": [[n % 3] * (n % 4) for n in range(N_ROWS)],
})  # fmt: skip
Codec = Literal["none", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "lz4", "zstd")
DEADLINE_S = 60.0


def spread(session: fabric.Session) -> fabric.DataFrame:
    """The table, dealt out to the agents first."""
    batches = TABLE.to_batches(max_chunksize=777)
    return session.read_arrow(pa.Table.from_batches(batches)).exchange()


@pytest.mark.parametrize("mode", ["pipelined", "materialised"])
@pytest.mark.parametrize("codec", CODECS)
def test_rows_are_the_same(session: fabric.Session, mode: str, codec: Codec) -> None:
    moved = spread(session).exchange("k", mode=mode, compression=codec)  # type: ignore[arg-type]
    counted = moved.with_columns(m=col("k") % 7)
    text = str(counted.explain())
    assert codec == "none" or f"{mode}, {codec} between agents" in text
    with session.submit(counted) as job:
        found = job.wait(DEADLINE_S).collect()
    assert found["m"].to_pylist() == [k % 7 for k in found["k"].to_pylist()]
    assert checksum(found.drop_columns(["m"])) == checksum(TABLE)


def stored_bytes(two: LocalFabric) -> int:
    return sum(agent.stored_bytes for agent in two.attached())


def holds(two: LocalFabric, low: int, high: int) -> bool:
    """Whether the agents' last beats add up to that; one may still be of the job before."""
    return low < stored_bytes(two) < high


@pytest.fixture
def alone() -> Iterator[LocalFabric]:
    """Two agents that hold nothing yet: failed jobs of other tests keep their rows for long."""
    with local_fabric(2) as running:
        yield running


def test_fewer_bytes_go_between_agents(alone: LocalFabric) -> None:
    """What is stored beside the rows is what went to the other agent: half of them, in less."""
    with fabric.connect(f"fabric://{alone.address}", token=alone.token) as session:
        moved = spread(session).select("k", "s").exchange("k").named("moved")
        plain = moved.group_by("k").agg(last=max("s"))
        for codec in CODECS[1:]:
            packed = plain.configure("moved", compression=codec)
            assert f"materialised, {codec} between agents" in str(packed.explain())
            with session.submit(packed) as job:
                stages = job.wait(DEADLINE_S).status.stages
                rows_bytes = sum(stage.bytes for stage in stages)
                moved_bytes = stages[-2].bytes
                most = rows_bytes + moved_bytes // 4  # a half of half
                wait_until(partial(holds, alone, rows_bytes, most), DEADLINE_S)
            wait_until(lambda: stored_bytes(alone) == 0, DEADLINE_S)


def test_other_flight_clients_read_plain_rows(two: LocalFabric, session: fabric.Session) -> None:
    moved = spread(session).exchange("k", compression="zstd").named("moved")
    token = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {two.token}".encode())])
    with session.submit(moved.group_by("k").agg(last=max("s"))) as job:
        job.wait(DEADLINE_S)
        found = []
        with flight.connect(two.attached()[0].address) as client:
            info = client.get_flight_info(
                flight.FlightDescriptor.for_path("job", job.id, "moved"), token
            )
            found = [client.do_get(e.ticket, token).read_all() for e in info.endpoints]
    assert checksum(pa.concat_tables(found)) == checksum(TABLE.select(["k", "s"]))


def test_what_can_not_be_compressed_is_refused_by_name(session: fabric.Session) -> None:
    moved = session.read_arrow(TABLE).exchange("k").named("moved").filter(col("k") > 0).named("f")
    with pytest.raises(fabric.FabricError, match="is not one of") as caught:
        moved.configure("moved", compression="gzip")  # type: ignore[arg-type]
    assert caught.value.where.node == "moved"
    with pytest.raises(fabric.FabricError, match="sends no rows") as caught:
        moved.configure("f", compression="lz4")
    assert caught.value.where.node == "f"
