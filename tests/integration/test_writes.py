"""Writes keep their promise: whoever restarts amid one, its rows are there once or not at all."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric.clients.spark.connection import Agents
from fabric.clients.spark.options import Credentials
from fabric.clients.spark.writer import Transaction
from fabric.clock import SystemClock
from fabric.errors import FabricError, PeerLostError
from fabric.flight.client import Client
from fabric.flight.owners import Kept
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600 if os.environ.get("FABRIC_SOAK") else 180)
TABLE = pa.table({"k": range(4_000), "v": [f"value {n}" for n in range(4_000)]})
N_WRITES = 20 if os.environ.get("FABRIC_SOAK") else 4
POINTS = ("agent.put-batch", "agent.put-sealed")
WAIT_S = 60.0


@pytest.fixture(scope="module")
def own() -> Iterator[LocalFabric]:
    with local_fabric(2, environ={"FABRIC_COORDINATOR_OWNER_WAIT_S": "45"}) as running:
        yield running


@pytest.fixture
def session(own: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{own.address}", token=own.token) as opened:
        yield opened


def arm(own: LocalFabric, i: int, point: str) -> None:
    """Agent `i` begins anew, and dies at its first `point`."""
    own.kill(i)
    own.faults[f"agent {i}"] = f"{point}:1:exit"
    own.restart(i)


def died(own: LocalFabric, i: int) -> None:
    """Wait until it did."""
    assert own.agents[i].process.wait(WAIT_S) == 137


def test_an_owner_that_dies_amid_a_write_is_waited_for(
    own: LocalFabric, session: fabric.Session, tmp_path: Path
) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=500)
    frame = session.read_parquet(path)
    n_written = 0
    for n in range(N_WRITES):
        arm(own, 1, POINTS[n % len(POINTS)])
        job = frame.write_dataset("rows", keys="k", n_partitions=2, mode="append", wait=False)
        died(own, 1)
        # long enough for as many attempts as a task has
        wait_until(lambda job=job: n_failed(job) >= 4 or job.state == "failed", WAIT_S)
        own.restart(1)
        try:
            n_written += job.wait(WAIT_S).rows
        except FabricError as error:  # nothing else may come of it
            pytest.fail(f"write {n} failed: {error}")
        assert session.read_dataset("rows").count() == n_written
    assert n_written == N_WRITES * TABLE.num_rows
    seen = session.read_dataset("rows").collect()
    assert sorted(seen["k"].to_pylist()) == sorted(list(range(TABLE.num_rows)) * N_WRITES)


def n_failed(job: fabric.Job) -> int:
    return sum(event.kind == "task failed" for event in job.events())


def test_an_owner_that_stays_away_is_named(tmp_path: Path) -> None:
    pq.write_table(TABLE, path := tmp_path / "t.parquet", row_group_size=500)
    with (
        local_fabric(
            2,
            environ={"FABRIC_COORDINATOR_OWNER_WAIT_S": "1"},
            faults={"agent 1": "agent.put-batch:1:exit"},
        ) as own,
        fabric.connect(f"fabric://{own.address}", token=own.token) as session,
    ):
        frame = session.read_parquet(path)
        with pytest.raises(PeerLostError, match=r"has been away for \d+ s") as caught:
            frame.write_dataset("rows", keys="k", n_partitions=2)
        assert caught.value.where.agent == own.agent_id(1)
        assert not session.datasets()


def test_a_table_of_this_process_waits_for_an_owner(
    own: LocalFabric, session: fabric.Session
) -> None:
    i = owner_beside(own, session.flight_url)
    arm(own, i, "agent.put-batch")
    with ThreadPoolExecutor() as threads:
        write = threads.submit(lambda: session.read_arrow(TABLE).write_dataset("sent").rows)
        died(own, i)
        own.restart(i)
        assert write.result(2 * WAIT_S) == TABLE.num_rows
    assert session.read_dataset("sent").count() == TABLE.num_rows


@pytest.mark.parametrize("splits", [False, True], ids=["flight", "spark"])
def test_a_put_of_a_client_waits_for_an_owner(
    own: LocalFabric, session: fabric.Session, splits: bool
) -> None:
    """Through an agent; or straight to the owners, as the tasks of the Spark connector do."""
    name, address = f"put-{splits}", session.flight_url
    i = owner_beside(own, address)
    arm(own, i, "agent.put-sealed")
    with Client(address, own.token) as client, ThreadPoolExecutor() as threads:
        transaction = begun(client, name, "once")

        def put() -> int:
            batches = iter(TABLE.to_batches(max_chunksize=500))
            if not splits:
                path = ["dataset", name, transaction, "w", "0"]
                return int(client.put(path, TABLE.schema, batches)["rows"])
            agents = Agents((address,), Credentials(token=own.token), 30.0)
            return Transaction(agents, name, transaction).put("w", 0, batches).rows

        rows = threads.submit(put)
        died(own, i)
        own.restart(i)
        assert rows.result(2 * WAIT_S) == TABLE.num_rows
        part = {"writer": "w", "rows": TABLE.num_rows}
        client.action("dataset.commit", transaction=transaction, parts=[part])
    assert session.read_dataset(name).count() == TABLE.num_rows


def test_two_subjects_with_one_key_keep_their_rows(
    own: LocalFabric, session: fabric.Session
) -> None:
    address = session.flight_url
    for n, subject in enumerate(("ann", "bob"), 1):
        token = own.signer.token("write", subject, 3600.0, SystemClock().wall_s())
        with Client(address, token) as client:
            transaction = begun(client, "shared", "load-7")
            rows = TABLE.slice(0, n)
            client.put(["dataset", "shared", transaction, "w", "0"], rows.schema, rows.to_batches())
            part = {"writer": "w", "rows": n}
            client.action("dataset.commit", transaction=transaction, parts=[part])
    assert session.read_dataset("shared").count() == 3


def begun(client: Client, name: str, key: str) -> str:
    schema = base64.b64encode(TABLE.schema.serialize()).decode()
    answer = client.action(
        "dataset.begin", name=name, schema=schema, mode="append", idempotency_key=key
    )
    return str(answer["transaction"])


def owner_beside(own: LocalFabric, address: str) -> int:
    """An agent that is not at `address`."""
    by_id = {agent.agent_id: agent.address for agent in own.attached()}
    return next(i for i in range(2) if by_id[own.agent_id(i)] != address)


def test_batches_of_an_iterator_are_kept_while_they_are_few() -> None:
    batches = TABLE.to_batches(max_chunksize=1_000)
    kept = Kept(iter(batches))
    first = iter(kept)
    assert [next(first), next(first)] == batches[:2]
    assert kept.is_whole
    assert list(kept) == list(kept) == batches
    few = Kept(iter(batches), bytes_max=batches[0].nbytes)
    assert list(few) == batches
    assert not few.is_whole
