"""Kafka that wants to know who connects: each way in, who is kept out, and what nobody may see."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fabric
from fabric.errors import AuthError
from tests.services.sasl import PASSWORD, SaslBroker, sasl_broker

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]
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
