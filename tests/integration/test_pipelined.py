"""Pipelined edges between agents: the same rows, limits that stop producers, losses with a name."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from tests.support.embedded import embedded_pair
from tests.support.local import local_fabric

N_ROWS = 60_000
TABLE = pa.table({
    "k": [n * 7919 % 10_007 for n in range(N_ROWS)],
    "s": [f"text {n % 97}" for n in range(N_ROWS)],
    "d": pa.array([f"w{n % 5}" for n in range(N_ROWS)]).dictionary_encode(),
})  # fmt: skip
DEADLINE_S = 60.0


@pytest.fixture(params=["two", "four"])
def agents(request: pytest.FixtureRequest) -> Iterator[fabric.Session]:
    running = request.getfixturevalue(request.param)
    with fabric.connect(f"fabric://{running.address}", token=running.token) as opened:
        yield opened


def spread(session: fabric.Session) -> fabric.DataFrame:
    """The table, dealt out to the agents first."""
    batches = TABLE.to_batches(max_chunksize=777)
    return session.read_arrow(pa.Table.from_batches(batches)).exchange()


@pytest.mark.parametrize("kind", ["hash", "round_robin", "gather"])
def test_rows_are_those_of_a_materialised_exchange(agents: fabric.Session, kind: str) -> None:
    keys = ["k"] if kind == "hash" else []
    tables = []
    for mode in ("pipelined", "materialised"):
        moved = spread(agents).exchange(*keys, kind=kind, mode=mode)  # type: ignore[arg-type]
        with agents.submit(moved.filter(col("k") % 3 > 0)) as job:
            tables.append(job.wait(DEADLINE_S).collect())
    assert checksum(tables[0]) == checksum(tables[1])
    assert tables[0].num_rows == sum(k % 3 > 0 for k in TABLE["k"].to_pylist())


def test_two_pipelined_edges_in_a_row(agents: fabric.Session) -> None:
    moved = spread(agents).exchange("k", mode="pipelined").with_columns(twice=col("k") * 2)
    again = moved.exchange("s", mode="pipelined").filter(col("twice") > 100)
    with agents.submit(again) as job:
        found = job.wait(DEADLINE_S).collect()
    assert found.num_rows == sum(2 * k > 100 for k in TABLE["k"].to_pylist())
    assert found["twice"].to_pylist() == [2 * k for k in found["k"].to_pylist()]


def test_one_batch_buffers_everywhere(agents: fabric.Session) -> None:
    moved = spread(agents).exchange("k", mode="pipelined").named("moved")
    with agents.submit(moved.configure("moved", buffer_batches=1)) as job:
        assert checksum(job.wait(DEADLINE_S).collect()) == checksum(TABLE)


def test_a_limit_ends_the_producers(agents: fabric.Session) -> None:
    moved = spread(agents).exchange(kind="gather", mode="pipelined").limit(5)
    with agents.submit(moved) as job:
        assert job.wait(DEADLINE_S).collect().num_rows == 5


def test_agents_of_one_process() -> None:
    source = fabric.DataFrame(TABLE).exchange().exchange("k", mode="pipelined")
    with embedded_pair(2) as pair:
        found = pair.collect(source.filter(col("k") >= 0).plan.root)
    assert checksum(found) == checksum(TABLE)


def test_a_killed_agent_is_told_by_name() -> None:
    with (
        local_fabric(2) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        endless = session.read_arrow(TABLE).exchange()
        for _ in range(3):
            endless = endless.union(endless)
        moved = endless.exchange("k", mode="pipelined").filter(col("k") > 0)
        job = session.submit(moved)
        running.kill(0)
        with pytest.raises(fabric.FabricError, match="agent"):
            job.wait(DEADLINE_S)
