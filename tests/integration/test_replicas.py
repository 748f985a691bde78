"""Datasets with replicas on processes: agents die, and the rows stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from fabric.control import control_pb2 as pb
from fabric.control.datasets import by_partition, n_lacking
from fabric.errors import ConfigError
from tests.support.local import SOON, LocalFabric, local_fabric
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(180)
AWAY = {**SOON, "FABRIC_COORDINATOR_REREPLICATE_S": "1.5"}
TABLE = pa.table({"k": range(40_000), "v": [f"value {n}" for n in range(40_000)]})
WAIT_S = 60.0


@pytest.fixture
def own() -> Iterator[LocalFabric]:
    with local_fabric(3, environ=AWAY) as running:
        yield running


def connect(running: LocalFabric) -> fabric.Session:
    return fabric.connect(f"fabric://{running.address}", token=running.token)


def location(running: LocalFabric, name: str = "t") -> pb.DatasetLocation:
    (found,) = running.control.locate(pb.LocateRequest(dataset=name)).datasets
    return found


def index(running: LocalFabric, agent_id: str) -> int:
    return next(i for i in range(len(running.agents)) if running.agent_id(i) == agent_id)


def has_replicas(running: LocalFabric, agents: set[str]) -> bool:
    """Whether every partition has its owners among `agents`."""
    return n_lacking(location(running), agents) == 0


def files(running: LocalFabric, i: int) -> set[int]:
    """Partitions of which an agent has files; it may be removing some."""
    walked = os.walk(running.home / "agents" / str(i) / "datasets")
    found = [name for _, _, names in walked for name in names]
    return {int(name[1:6]) for name in found if name.endswith(".arrows")}


def owned(running: LocalFabric, i: int) -> set[int]:
    owners = enumerate(by_partition(location(running)))
    return {partition for partition, agents in owners if running.agent_id(i) in agents}


def kill(running: LocalFabric, i: int) -> None:
    """SIGKILL an agent; returns once the coordinator has noticed."""
    lost = running.agent_id(i)
    running.kill(i)
    wait_until(lambda: lost not in {agent.agent_id for agent in running.attached()}, WAIT_S)


def check(running: LocalFabric) -> None:
    """The same rows, each once: as they are, and by an aggregate."""
    with connect(running) as session:
        found = session.read_dataset("t")
        assert checksum(found.collect()) == checksum(TABLE)
        assert found.agg(n=col("k").count(), s=col("k").sum()).collect().to_pylist() == [
            {"n": 40_000, "s": sum(range(40_000))}
        ]


def test_agents_die_one_after_the_other(own: LocalFabric, tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=5000)
    ids = {own.agent_id(i) for i in range(3)}
    with connect(own) as session:
        with pytest.raises(ConfigError, match="replicas=4 needs as many agents, and 3 are"):
            session.read_parquet(path).write_dataset("t", keys="k", replicas=4)
        write = session.read_parquet(path).write_dataset("t", keys="k", n_partitions=5, replicas=2)
        assert write.rows == TABLE.num_rows
    assert has_replicas(own, ids)
    check(own)

    first = index(own, location(own).owners[0])
    kill(own, first)
    check(own)  # at once: nobody has made anything anew yet
    left = ids - {own.agent_id(first)}
    wait_until(lambda: has_replicas(own, left), WAIT_S)
    check(own)
    kinds = [e.kind for e in own.control.list_events(pb.EventsRequest()).events]
    assert "dataset lacks replicas" in kinds

    second = index(own, min(left))
    kill(own, second)
    check(own)

    stale = files(own, first)
    assert stale
    own.agents[first] = own.start_agent(first)
    third = ({0, 1, 2} - {first, second}).pop()
    both = {own.agent_id(first), own.agent_id(third)}
    wait_until(lambda: has_replicas(own, both), WAIT_S)
    check(own)
    wait_until(lambda: files(own, first) == owned(own, first) == set(range(5)), WAIT_S)

    own.restart(second)  # what it had was given to the first: its own copies go
    wait_until(lambda: files(own, second) == owned(own, second) == set(), WAIT_S)
    check(own)
    assert location(own).rows == TABLE.num_rows


def test_a_coordinator_that_is_killed_goes_on(own: LocalFabric, tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet")
    ids = {own.agent_id(i) for i in range(3)}
    with connect(own) as session:
        session.read_parquet(path).write_dataset("t", keys="k", n_partitions=5, replicas=2)
    left = ids - {own.agent_id(0)}
    own.kill(0)
    del own.agents[0]
    own.kill_coordinator()
    own.start_coordinator()
    wait_until(lambda: has_replicas(own, left), WAIT_S)
    check(own)
    with connect(own) as session:
        more = session.read_parquet(path).write_dataset("t", keys="k", mode="append")
        assert more.rows == TABLE.num_rows
        assert has_replicas(own, left)
        twice = session.read_dataset("t").agg(n=col("k").count()).collect().to_pylist()
        assert twice == [{"n": 80_000}]


def test_an_agent_that_drains_leaves_nothing_behind(own: LocalFabric, tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet")
    with connect(own) as session:
        session.read_parquet(path).write_dataset("t", keys="k", n_partitions=5, replicas=2)
        leaving = own.agent_id(0)
        session.drain(leaving)

        def state() -> str:
            return next(a.state for a in own.attached() if a.agent_id == leaving)

        wait_until(lambda: state() == "drained", WAIT_S)
        wait_until(lambda: files(own, 0) == owned(own, 0) == set(), WAIT_S)
        own.terminate(0)
        check(own)


def test_a_damaged_file_is_read_from_the_other_replica(own: LocalFabric, tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet")
    with connect(own) as session:
        session.read_parquet(path).write_dataset("t", keys="k", n_partitions=5, replicas=2)
        for file in (own.home / "agents" / "0" / "datasets").rglob("p*.arrows"):
            file.write_bytes(file.read_bytes()[:-100])
        check(own)
        logs = "".join(agent.log.read_text(encoding="utf-8") for agent in own.agents)
        assert "replica passed over" in logs
