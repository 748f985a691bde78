"""Kafka that wants to know who connects: each way in, who is kept out, and what nobody may see.

Jobs that run when a password or a right goes bad end by name, and go on if it is soon good again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

import fabric
from fabric.clients.dataframe.targets import to_kafka
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import AuthError
from fabric.io.kafka import direct, library, refusals
from fabric.io.readers import stream_schema
from fabric.plan.nodes import Sink, StreamScan
from fabric.plan.sources import GeneratorStream
from fabric.telemetry.logs import configure_logs
from tests.services.sasl import PASSWORD, SaslBroker, sasl_broker
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.kafka_clients import client_of_kind
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(400)
N_ROWS = 200
SCHEMA = {"id": "int64", "text": "string"}
WRONG = "wrong-and-still-not-shown"
WAYS = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "mTLS")


@pytest.fixture(scope="module")
def broker() -> Iterator[SaslBroker]:
    with sasl_broker() as made:
        yield made


def way_in(broker: SaslBroker, name: str) -> dict[str, Any]:
    """What the verbs are told of one way in."""
    if name == "mTLS":
        return {"servers": broker.ssl_servers, "settings": broker.mtls()}
    return {"servers": broker.sasl_servers, "settings": broker.sasl(name)}


def filled(broker: SaslBroker) -> str:
    topic = broker.new_topic(partitions=2)
    rows = [{"id": n, "text": f"t{n}"} for n in range(N_ROWS)]
    broker.produce(topic, ((str(row["id"]).encode(), json.dumps(row).encode()) for row in rows))
    return topic


def secrets_of(broker: SaslBroker) -> list[str]:
    """What nobody may see: passwords, and a line of the client's key."""
    return [PASSWORD, WRONG, broker.key.read_text().splitlines()[1]]


@pytest.mark.parametrize("way", WAYS)
def test_rows_come_and_go_by_each_way_in(
    broker: SaslBroker, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, copy = filled(broker), broker.new_topic(partitions=2)
    given, secrets = way_in(broker, way), secrets_of(broker)
    with fabric.connect() as session:
        rows = fabric.read_kafka(topic, schema=SCHEMA, until="now", session=session, **given)
        job = rows.write_kafka(copy, key="text", **given)
        said = [repr(rows), rows.explain(), str(job), str(job.wait().status)]
        assert sorted(json.loads(record.value or b"")["id"] for record in broker.records(copy)) == (
            list(range(N_ROWS))
        )
        said += map(str, job.events())
    said += capfd.readouterr()
    assert not [text for text in said if any(secret in text for secret in secrets)]


def wrong(broker: SaslBroker, name: str) -> dict[str, Any]:
    """What the verbs are told of one way in that is closed."""
    sasl, mtls = broker.sasl_servers, broker.ssl_servers
    certificate, key = broker.expired
    return {
        "password": {"servers": sasl, "settings": broker.sasl("PLAIN", WRONG)},
        "SCRAM password": {"servers": sasl, "settings": broker.sasl("SCRAM-SHA-512", WRONG)},
        "user": {"servers": sasl, "settings": broker.sasl("PLAIN") | {"sasl.username": "eve"}},
        "roots": {
            "servers": sasl,
            "settings": broker.sasl("PLAIN") | {"ssl.ca.location": str(broker.other_roots)},
        },
        "no certificate": {
            "servers": mtls,
            "settings": {"security.protocol": "SSL", "ssl.ca.location": str(broker.roots)},
        },
        "expired certificate": {
            "servers": mtls,
            "settings": broker.mtls()
            | {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)},
        },
    }[name]


@pytest.mark.parametrize(
    "what", ["password", "SCRAM password", "user", "roots", "no certificate", "expired certificate"]
)
def test_who_is_kept_out_is_told_by_name(broker: SaslBroker, what: str) -> None:
    topic, given = broker.new_topic(), wrong(broker, what)
    rows = fabric.DataFrame({"id": [1], "text": ["a"]})
    reads = fabric.read_kafka(topic, schema=SCHEMA, until="now", **given)
    for refused in (reads.collect, lambda: rows.write_kafka(topic, **given)):
        began_s = time.monotonic()
        with pytest.raises(AuthError, match=r"credentials|TLS|certificate") as caught:
            refused()
        assert time.monotonic() - began_s < 60, "an endless retry would be no answer"
        assert given["servers"] in str(caught.value)
        assert not [secret for secret in secrets_of(broker) if secret in str(caught.value)]
    assert broker.records(topic) == []


# ---- what goes bad under jobs that run

GOING_BAD = ["native", pytest.param("python", marks=pytest.mark.soak)]
"""Clients: Python's takes another 40 s a test."""
READ, ONCE, LEAST = "read", "once", "least"
"""Jobs: one that reads, and those that write exactly once and at least once."""


class Running:
    """Three jobs of one user."""

    def __init__(self, broker: SaslBroker, on: EmbeddedFabric, user: str) -> None:
        self.broker, self._on, self.user = broker, on, user
        self.topics = {job: broker.new_topic(job, partitions=2) for job in (READ, ONCE, LEAST)}
        self._copy, self._markers = broker.new_topic("copy"), broker.new_topic("markers")
        broker.alter_topic(self._markers, cleanup_policy="compact")
        broker.set_password(user, PASSWORD)
        self.said, self._n_put = StringIO(), 0
        configure_logs(self.said)
        settings = broker.sasl("SCRAM-SHA-512", user=user)
        self._given: dict[str, Any] = {"servers": broker.sasl_servers, "settings": settings}
        self.jobs = {READ: self._reads(), ONCE: self._writes(ONCE), LEAST: self._writes(LEAST)}

    def _reads(self) -> str:
        rows = fabric.read_kafka(self.topics[READ], schema=SCHEMA, **self._given)
        copy = to_kafka(self._copy, servers=self.broker.servers, guarantee="at_least_once")
        return self._on.submit(Sink(rows._node, copy), parallelism=1)

    def _writes(self, job: str) -> str:
        made = GeneratorStream(n_rows=1_000_000, n_splits=2, rows_per_s=200)
        rows = StreamScan(made, stream_schema(made), path="made")
        options: dict[str, Any] = {"markers": self._markers}
        if job == LEAST:
            options = {"guarantee": "at_least_once"}
        target = to_kafka(self.topics[job], **self._given, **options)
        return self._on.submit(Sink(rows, target, path="out"), parallelism=2)

    def go_on(self) -> None:
        """Wait until each has written more."""
        seen = {READ: self._copy, ONCE: self.topics[ONCE], LEAST: self.topics[LEAST]}

        before = {job: len(self.broker.records(seen[job], settled=False)) for job in self.jobs}
        row = {"id": self._n_put, "text": "t"}
        self._n_put += 1
        for partition in (0, 1):
            value = json.dumps(row).encode()
            self.broker.produce(self.topics[READ], [(None, value)], partition=partition)
        for job, n in before.items():
            wait_until(partial(self._is_further, job, seen[job], n), 90)

    def _is_further(self, job: str, topic: str, n: int) -> bool:
        assert not self.has_ended(job), self._on.wait(self.jobs[job])
        return len(self.broker.records(topic, settled=False)) > n

    def check_whole(self) -> None:
        """No row is missing that the writers wrote before others."""
        for job in (ONCE, LEAST):
            last = max(row for _, row in self._rows(job))
            wanted = {(split, row) for split in (0, 1) for row in range(last)}
            wait_until(partial(self._has, job, wanted), 60)

    def _has(self, job: str, wanted: set[tuple[int, int]]) -> bool:
        return wanted <= self._rows(job)

    def _rows(self, job: str) -> set[tuple[int, int]]:
        found = self.broker.records(self.topics[job], settled=False)
        rows = [json.loads(record.value or b"") for record in found]
        return {(row["split"], row["row"]) for row in rows}

    def has_ended(self, job: str) -> bool:
        status = self._on.control.status(pb.JobRequest(job_id=self.jobs[job]))
        return status.state in ENDED

    def wait_refused(self) -> None:
        """Until a job has heard of it: the others may hear, too, and none ends if it is mended."""
        wait_until(lambda: "Kafka rejects the client" in self.said.getvalue(), 60)

    def fail(self, text: str, patch: pytest.MonkeyPatch) -> None:
        """All end, by name, and as soon as a rejection has lasted for a second."""
        patch.setattr(refusals, "REFUSED_S", 1.0)
        patch.setattr(direct, "REFUSED_S", 1.0)
        for job in self.jobs:
            wait_until(partial(self.has_ended, job), 120)
            with pytest.raises(AuthError, match=text) as caught:
                self._on.wait(self.jobs[job])
            assert not [one for one in secrets_of(self.broker) if one in str(caught.value)]
        assert not [one for one in secrets_of(self.broker) if one in self.said.getvalue()]


@pytest.fixture
def running(
    broker: SaslBroker, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    client = client_of_kind(kind)
    monkeypatch.setattr(library, "client_of", lambda path: client)
    library.client.cache_clear()
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(tmp_path), interval_s=0.3))
    with embedded_pair(2, slots=4, config=config) as on:
        yield Running(broker, on, tmp_path.name)
    library.client.cache_clear()


@pytest.mark.parametrize("kind", GOING_BAD)
def test_a_password_that_goes_bad_under_jobs_ends_them(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is soon good again does not."""
    running.go_on()
    running.broker.set_password(running.user, "another")
    running.wait_refused()
    running.broker.set_password(running.user, PASSWORD)
    running.go_on()
    running.check_whole()
    running.broker.set_password(running.user, "another")
    running.fail("rejected the credentials", monkeypatch)


@pytest.mark.parametrize("kind", GOING_BAD)
def test_a_right_that_is_taken_away_ends_jobs(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is soon given back does not."""
    rights = {READ: AclOperation.READ, ONCE: AclOperation.WRITE, LEAST: AclOperation.WRITE}

    def change(how: Callable[..., None]) -> None:
        for job, right in rights.items():
            how(running.user, right, running.topics[job])

    running.go_on()
    change(running.broker.forbid)
    running.wait_refused()
    change(running.broker.allow)
    running.go_on()
    running.check_whole()
    change(running.broker.forbid)
    running.fail("not authorized|authorization failed", monkeypatch)
