"""Any plain Flight client reads a job's partitions and datasets: with a token, only with one."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from fabric.plan.nodes import Plan, Sink
from fabric.testing import Gate
from tests.support.local import LocalFabric

TABLE = pa.table({"k": list(range(5_000)), "v": [n % 7 for n in range(5_000)]})


def options(token: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(
        timeout=20, headers=[(b"authorization", f"Bearer {token}".encode())]
    )


def test_a_partition_is_read_while_the_job_runs(session: fabric.Session) -> None:
    df = session.read_arrow(TABLE).exchange("k", n_partitions=3).named("by_k")
    df = df.filter(col("v") >= 0)
    with Gate() as gate, session.submit(Plan(Sink(df.plan.root, gate.target))) as job:
        partitions = []
        while not partitions:  # until the exchange is sealed; its consumer waits at the gate
            assert job.state == "running", job
            partitions = job.partitions("by_k") if readable(session, job) else []
        rows = 0
        for partition in partitions:
            with flight.connect(partition.locations[0]) as client:
                stream = client.do_get(flight.Ticket(partition.ticket), options(session.token))
                rows += stream.read_all().num_rows
        assert rows == TABLE.num_rows
        assert job.state == "running"
        gate.open()
        job.wait()


def readable(session: fabric.Session, job: fabric.Job) -> bool:
    """Whether all of ``by_k`` is sealed: what a stranger sees in the agent's list."""
    with flight.connect(session.flight_url) as client:
        infos = client.list_flights(options=options(session.token))
        found = [i for i in infos if i.descriptor.path[:3] == [b"job", job.id.encode(), b"by_k"]]
        return sum(i.total_records for i in found) == TABLE.num_rows


def test_a_dataset_from_outside_and_back(two: LocalFabric, session: fabric.Session) -> None:
    descriptor = flight.FlightDescriptor.for_path("dataset", "from-outside")
    with flight.connect(session.flight_url) as client:
        writer, reader = client.do_put(descriptor, TABLE.schema, options(two.token))
        with writer:
            writer.write_table(TABLE)
            writer.done_writing()
            assert reader.read() is not None
        info = client.get_flight_info(descriptor, options(two.token))
        assert len(info.endpoints) == len(two.agents)
        parts = []
        for endpoint in info.endpoints:
            with flight.connect(endpoint.locations[0]) as owner:
                parts.append(owner.do_get(endpoint.ticket, options(two.token)).read_all())
    assert checksum(pa.concat_tables(parts)) == checksum(TABLE)
    assert session.read_dataset("from-outside").count() == TABLE.num_rows
    session.drop_dataset("from-outside")
    assert "from-outside" not in session.datasets()


DATASET = flight.FlightDescriptor.for_path("dataset", "x")
VERBS: dict[str, Callable[[flight.FlightClient], object]] = {
    "list_flights": lambda c: list(c.list_flights()),
    "get_flight_info": lambda c: c.get_flight_info(DATASET),
    "get_schema": lambda c: c.get_schema(DATASET),
    "do_get": lambda c: c.do_get(flight.Ticket(b"x")).read_all(),
    "do_put": lambda c: c.do_put(DATASET, TABLE.schema)[1].read(),
    "do_exchange": lambda c: c.do_exchange(DATASET)[1].read_chunk(),
    "list_actions": lambda c: list(c.list_actions()),
    "do_action": lambda c: list(c.do_action(flight.Action("dataset.list", b""))),
}


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_without_a_token(verb: str, session: fabric.Session) -> None:
    with (
        flight.connect(session.flight_url) as client,
        pytest.raises((flight.FlightUnauthenticatedError, OSError), match=r"(?i)token"),
    ):
        VERBS[verb](client)


def test_every_agent_answers_for_all(two: LocalFabric, session: fabric.Session) -> None:
    with session.submit(session.read_arrow(TABLE).exchange("k").named("by_k")) as job:
        job.wait()
        seen = []
        for agent in two.attached():
            with flight.connect(agent.address) as client:
                descriptor = flight.FlightDescriptor.for_path("job", job.id, job.result_path)
                info = client.get_flight_info(descriptor, options(two.token))
                tables = [
                    client.do_get(e.ticket, options(two.token)).read_all() for e in info.endpoints
                ]
                seen.append(checksum(pa.concat_tables(tables)))
        assert seen == [checksum(TABLE)] * 2
