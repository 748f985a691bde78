"""Datasets with replicas on real servers: put once, lie twice, read from whoever has them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError, DataError, PartitionLostError, PeerLostError
from fabric.flight.client import Client
from fabric.flight.ticket import DatasetRequest, Part
from fabric.ids import TaskId
from fabric.io import sinks, sources
from fabric.io.dataset.access import use
from fabric.plan.sources import DatasetSource
from fabric.plan.targets import DatasetTarget
from tests.support.flight_rig import FlightRig

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"k": range(3000), "v": [f"v{n}" for n in range(3000)]}, SCHEMA)
SOURCE = DatasetSource("d")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path, 3) as rig:
        yield rig


def begin(client: Client, **fields: Any) -> str:
    schema = base64.b64encode(SCHEMA.serialize()).decode()
    given = {"name": "d", "schema": schema, "keys": ["k"], "partitions": 4, "replicas": 2}
    return str(client.action("dataset.begin", **{**given, **fields})["transaction"])


def write(rig: FlightRig, **fields: Any) -> dict[str, Any]:
    """`ROWS` as dataset d, by one put; what the put was acknowledged with."""
    with rig.client() as client:
        transaction = begin(client, **fields)
        path = ["dataset", "d", transaction, "w", "0"]
        ack = client.put(path, SCHEMA, ROWS.to_batches(max_chunksize=300))
        part = {"writer": "w", "attempt": 0, "rows": ack["rows"]}
        client.action("dataset.commit", transaction=transaction, parts=[part])
        return ack


def read(rig: FlightRig, agent: str) -> pa.Table:
    """All of it by way of one agent alone."""
    with rig.client("read", agent=agent) as client:
        info = client.info(["dataset", "d"])
        batches = [b for e in info.endpoints for b in client.read_endpoint(e.ticket.ticket)]
    return pa.Table.from_batches(batches, SCHEMA).sort_by("k")


def read_in_task(rig: FlightRig, agent: str) -> pa.Table:
    with use(rig.access(agent)):
        splits = sources.enumerate_splits(SOURCE, 1)
        batches = [b for s in splits for b in sources.read_split(SOURCE, SCHEMA, s)]
    return pa.Table.from_batches(batches, SCHEMA).sort_by("k")


def lies(rig: FlightRig) -> dict[str, list[int]]:
    """The partitions of the dataset that are files of each agent."""
    return {
        agent: sorted(int(file.stem[1:]) for file in files.root.rglob("p*.arrows"))
        for agent, files in rig.files.items()
    }


def leave(rig: FlightRig, agent: str) -> None:
    """It is gone, and everybody was told."""
    rig.stop(agent)
    del rig.control.addresses[agent]
    rig.control.push(full=True, datasets=rig.control.catalogue.all())


def damage(rig: FlightRig, agent: str) -> None:
    for file in rig.files[agent].root.rglob("p*.arrows"):
        bytes_ = bytearray(file.read_bytes())
        bytes_[len(bytes_) // 2] ^= 0xFF
        file.write_bytes(bytes_)


def test_rows_lie_with_all_owners_and_count_once(rig: FlightRig) -> None:
    once = write(rig, replicas=1)
    with rig.client() as client:
        client.action("dataset.drop", name="d")
    ack = write(rig)
    assert {**ack, "transaction": ""} == {**once, "transaction": ""}
    assert (ack["rows"], lies(rig)) == (3000, {"a0": [0, 2, 3], "a1": [0, 1, 3], "a2": [1, 2]})
    location = rig.control.catalogue.get("d")
    assert (location.rows, location.replicas, location.n_partitions) == (3000, 2, 4)
    for agent in rig.files:
        assert read(rig, agent) == read_in_task(rig, agent) == ROWS


def test_endpoints_list_all_owners_that_are_there(rig: FlightRig) -> None:
    write(rig)

    def places() -> list[list[str]]:
        with rig.client("read", agent="a1") as client:
            known = {rig.control.addresses[a]: a for a in rig.control.addresses}
            found = [[known.get(at.uri.decode(), "reuse") for at in endpoint.locations]
                     for endpoint in client.info(["dataset", "d"]).endpoints]  # fmt: skip
            assert client.info(["dataset", "d"]).total_records == 3000
            return found

    assert places() == [
        ["a0", "a1", "reuse"], ["a1", "a2", "reuse"], ["a2", "a0", "reuse"], ["a0", "a1", "reuse"],
    ]  # fmt: skip
    leave(rig, "a0")
    assert places() == [
        ["a1", "reuse"], ["a1", "a2", "reuse"], ["a2", "reuse"], ["a1", "reuse"],
    ]  # fmt: skip


def test_an_agent_that_is_gone_is_read_around(rig: FlightRig) -> None:
    write(rig)
    with rig.client("read", agent="a1") as client:
        before = client.info(["dataset", "d"])  # a0 is still named
        rig.stop("a0")
        batches = list(client.read(before))
    assert pa.Table.from_batches(batches, SCHEMA).sort_by("k") == ROWS
    assert read_in_task(rig, "a2") == ROWS  # nobody was told yet
    assert read(rig, "a2") == ROWS
    del rig.control.addresses["a0"]
    rig.control.push(full=True, datasets=rig.control.catalogue.all())
    assert read(rig, "a1") == read_in_task(rig, "a1") == ROWS


def test_a_damaged_replica_is_answered_from_the_other(
    rig: FlightRig, capsys: pytest.CaptureFixture[str]
) -> None:
    write(rig)
    damage(rig, "a0")
    for reading in (read, read_in_task):
        for agent in ("a0", "a2"):
            assert reading(rig, agent) == ROWS
            said = capsys.readouterr().err
            assert "replica passed over" in said
            assert "owner=a0" in said
            assert "is damaged" in said
    damage(rig, "a1")  # of partitions 0 and 3 none is left
    for agent in rig.files:
        with pytest.raises(DataError, match="is damaged"):
            read(rig, agent)
        with pytest.raises(DataError, match="is damaged"):
            read_in_task(rig, agent)


def test_the_error_stays_as_it_is_with_one_replica(rig: FlightRig) -> None:
    write(rig, replicas=1)
    leave(rig, "a1")
    with pytest.raises(PeerLostError, match="agent a1, which is not connected; start it again"):
        read(rig, "a0")
    with pytest.raises(PeerLostError, match="agent a1 owns partitions of dataset 'd' and is not"):
        read_in_task(rig, "a0")


def test_a_put_needs_all_owners(rig: FlightRig) -> None:
    write(rig)
    with rig.client(agent="a1") as client:
        transaction = begin(client, mode="append")
        leave(rig, "a0")
        path = ["dataset", "d", transaction, "w", "0"]
        with pytest.raises(PeerLostError, match="agent a0 owns partitions of dataset 'd'"):
            client.put(path, SCHEMA, ROWS.to_batches(), owner_wait_s=0.0)


def test_replicas_are_checked(rig: FlightRig) -> None:
    with rig.client() as client:
        with pytest.raises(ConfigError, match="replicas=4 needs as many agents, and 3 are"):
            begin(client, replicas=4)
        with pytest.raises(ConfigError, match="'replicas' must be at least 1, got 0"):
            begin(client, replicas=0)
        write(rig)
        with pytest.raises(ConfigError, match="has replicas=2, an append can't have replicas=1"):
            begin(client, mode="append", replicas=1)
        (listed,) = client.action("dataset.list")["datasets"]
        assert (listed["replicas"], listed["partitions_lacking"]) == (2, 0)
        leave(rig, "a2")
        (listed,) = client.action("dataset.list")["datasets"]
        assert (listed["replicas"], listed["partitions_lacking"]) == (2, 2)


def test_tasks_write_to_all_owners(rig: FlightRig) -> None:
    target = DatasetTarget("d", ("k",), 3, replicas=3)
    with use(rig.access("a1")):
        handles = []
        for task, rows in enumerate([ROWS.slice(0, 1000), ROWS.slice(1000)]):
            sink = sinks.open_sink(target, SCHEMA, TaskId("job-1", 0, task), 2)
            for batch in rows.to_batches(max_chunksize=700):
                sink.write(batch)
            handles.append(sink.prepare())
        sinks.publish(handles)
    assert rig.control.catalogue.get("d").rows == 3000
    assert lies(rig) == {agent: [0, 0, 1, 1, 2, 2] for agent in rig.files}
    leave(rig, "a0")
    leave(rig, "a2")
    assert read(rig, "a1") == ROWS


def test_tasks_ask_who_owns_it_by_now(rig: FlightRig) -> None:
    write(rig, partitions=1)  # a0 and a1
    with use(rig.access("a2")):
        (split,) = sources.enumerate_splits(SOURCE, 1)
        (part,) = rig.control.catalogue.get("d").parts
        request = DatasetRequest(
            name="d", version=1, partition=0,
            parts=(Part(part.transaction, part.writer, part.attempt),),
        )  # fmt: skip
        writer = rig.files["a2"].open_copy(request, SCHEMA)
        for batch in rig.files["a0"].read(request):
            writer.write(0, batch)
        writer.seal()
        rig.control.catalogue.move("d", 1, "a2")
        leave(rig, "a0")
        leave(rig, "a1")
        rows = list(sources.read_split(SOURCE, SCHEMA, split))
        assert pa.Table.from_batches(rows, SCHEMA).sort_by("k") == ROWS
        leave(rig, "a2")
        rig.transports["a2"].close()
        with pytest.raises((PeerLostError, PartitionLostError)):
            list(sources.read_split(SOURCE, SCHEMA, split))


def test_a_plain_flight_client_reads_any_location(rig: FlightRig) -> None:
    write(rig)
    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {rig.token()}".encode())])
    with fl.connect(rig.address("a1")) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_path("dataset", "d"), options)
    for replica in (0, 1):
        tables = []
        for endpoint in info.endpoints:
            with fl.connect(endpoint.locations[replica]) as owner:
                tables.append(owner.do_get(endpoint.ticket, options).read_all())
        assert pa.concat_tables(tables).sort_by("k") == ROWS


def test_a_location_without_owners_is_no_place_to_write(rig: FlightRig) -> None:
    from fabric.errors import InternalError
    from fabric.flight.descriptor import PutPath
    from fabric.flight.owners import Spread

    location = pb.DatasetLocation(
        name="d", schema=SCHEMA.serialize().to_pybytes(), n_partitions=2, replicas=2,
        owners=["a0", "", "", ""],
    )  # fmt: skip
    with pytest.raises(InternalError, match="partition 1 of dataset 'd' has no owner"):
        Spread(PutPath("d", "tx", "w", 0), location, rig.transports["a0"], rig.control.addresses)
