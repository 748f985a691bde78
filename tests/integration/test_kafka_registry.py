"""A schema registry goes away under a running job: nothing is lost, and the job can be ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import fabric
from fabric import Job, Session, formats
from fabric.clients.demo.services.server import free_port
from tests.services.apicurio import Apicurio
from tests.services.kafka import SharedBroker, kafka_broker
from tests.support.cut_proxy import CutProxy
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
N_ROWS = 50


class Stream:
    """A topic of Avro, and a job that reads it into files; its registry is behind a proxy.

    Values by two versions of the schema are made first. The second ones come to the topic when the
    registry is away, so their schema can't be asked for.
    """

    def __init__(
        self, registry: Apicurio, proxy: CutProxy, session: Session, settings: dict[str, str]
    ) -> None:
        self.registry, self.proxy, self._session = registry, proxy, session
        session.checkpoints(interval_s=0.3)  # rows are seen then
        self.broker: SharedBroker = kafka_broker()
        self.topic = self.broker.new_topic("registry")
        self._values = self.register()
        own, behind = str(registry.port), str(proxy.port)
        self._format = formats.avro(
            registry=registry.url.replace(own, behind), registry_settings=settings
        )

    def register(self) -> list[list[bytes]]:
        """Values by both versions, which are registered, always with the same ids."""
        made, url, subject = [], self.registry.url, f"{self.topic}-value"
        for version, names in enumerate((["id"], ["id", "more"])):
            topic = self.broker.new_topic("values")
            ids = list(range(version * N_ROWS, (version + 1) * N_ROWS))
            rows = fabric.DataFrame(dict.fromkeys(names, ids))
            fields = [{"name": name, "type": "long", "default": 0} for name in names]
            schema = json.dumps({"type": "record", "name": "R", "fields": fields})
            format = formats.avro(schema, registry=url, subject=subject)
            rows.write_kafka(topic, servers=self.broker.servers, format=format)
            made.append([record.value or b"" for record in self.broker.records(topic)])
        return made

    def put(self, version: int) -> None:
        """Rows come to the topic."""
        self.broker.produce(self.topic, [(None, value) for value in self._values[version]])

    def start(self, out: Path) -> Job:
        """A job that has read the first rows, and has not met the second schema."""
        self.put(0)
        schema = {"id": "int64"}
        rows = fabric.read_kafka(
            self.topic, servers=self.broker.servers, format=self._format, schema=schema,
            session=self._session,
        )  # fmt: skip
        job = rows.write_stream(out)
        wait_until(lambda: seen(out) == list(range(N_ROWS)), 60)
        return job

    def wait_for_a_question(self) -> None:
        """Until the job has asked the registry that is away."""

        def asked() -> int:
            return self.proxy.n_connections + self.proxy.n_refused

        before = asked()
        self.put(1)
        wait_until(lambda: asked() > before, 60)


@pytest.fixture(scope="module")
def registry() -> Iterator[Apicurio]:
    with Apicurio() as made:
        yield made


@contextmanager
def stream(registry: Apicurio, **settings: str) -> Iterator[Stream]:
    with ExitStack() as stack:
        stack.callback(registry.resume)
        session = stack.enter_context(fabric.connect())
        yield Stream(registry, stack.enter_context(CutProxy(registry.port)), session, settings)


def seen(out: Path) -> list[int]:
    table = ds.dataset(out).to_table() if out.exists() else None
    return sorted(table["id"].to_pylist()) if table is not None and table.num_rows else []


@pytest.mark.parametrize(
    ("how", "away_s"),
    [("hangs", 2), pytest.param("hangs", 30, marks=pytest.mark.soak),
     pytest.param("ends", 30, marks=pytest.mark.soak)],
)  # fmt: skip
def test_nothing_is_lost_while_the_registry_is_away(
    tmp_path: Path, registry: Apicurio, how: str, away_s: float
) -> None:
    with stream(registry, **{"request.timeout.ms": "500"}) as s:
        job = s.start(tmp_path / "out")
        (s.registry.pause if how == "hangs" else s.registry.stop)()
        s.wait_for_a_question()
        time.sleep(away_s)
        assert job.state == "running"
        assert seen(tmp_path / "out") == list(range(N_ROWS))
        if how == "hangs":
            s.registry.resume()
        else:  # what comes back is empty, and is to be filled before the job sees it
            s.registry.port = free_port()
            s.registry.start()
            s.register()
            s.proxy.lead_to(s.registry.port)
        wait_until(lambda: seen(tmp_path / "out") == list(range(2 * N_ROWS)), 60)
        assert job.status.n_attempts == 0
        job.cancel()


def test_a_job_that_waits_for_a_registry_can_be_cancelled(
    tmp_path: Path, registry: Apicurio
) -> None:
    with stream(registry, **{"wait.ms": "600000", "request.timeout.ms": "600000"}) as s:
        job = s.start(tmp_path / "out")
        s.registry.pause()
        s.wait_for_a_question()
        assert job.cancel().state == "cancelled"
