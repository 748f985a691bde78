"""Brokers of Kafka that refuse what they took before: rights, ids they forgot, questions.

What waiting mends goes on without loss; what it won't mend is an error by name, and not tried again
for ever.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from fabric.clients.demo.services.server import free_port
from fabric.errors import AuthError, BrokerError, ExternalError
from fabric.io.kafka import refusals
from fabric.io.kafka.publisher import Publisher
from tests.io.kafka.test_publisher import Rig
from tests.services.kafka import KafkaBroker
from tests.services.topics import Topics
from tests.services.transactions import transactions
from tests.support.kafka_clients import KINDS, client_of_kind, settings
from tests.support.wait import wait_until

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
}
"""Rights count, and who is idle is forgotten within seconds, not days."""


DESCRIBE_CONFIGS = 32


class Guarded(KafkaBroker):
    """It has another listener, at `heard_port`, which it says is at `deaf_port`."""

    def __init__(self) -> None:
        self.heard_port, self.deaf_port = free_port(), free_port()
        super().__init__(GUARDED)

    def listeners(self) -> dict[str, str]:
        """See `KafkaBroker.listeners`."""
        found = super().listeners()
        return {
            "listeners": f"{found['listeners']},DEAF://127.0.0.1:{self.heard_port}",
            "advertised.listeners": (
                f"{found['advertised.listeners']},DEAF://127.0.0.1:{self.deaf_port}"
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", "DEAF")
            ),
        }


@pytest.fixture(scope="module")
def broker() -> Iterator[Guarded]:
    with Guarded() as made:
        yield made


@pytest.fixture
def rig(broker: KafkaBroker, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path, broker)
    yield made
    for publisher in made.publishers:
        publisher.close()


def forbid(broker: Topics, topic: str, operation: AclOperation) -> None:
    """From now on nobody may do that with the topic, and all else as before."""
    admin = broker.admin()
    rights = (
        ("User:*", AclOperation.ALL, AclPermissionType.ALLOW),
        ("User:ANONYMOUS", operation, AclPermissionType.DENY),
    )
    for who, what, how in rights:
        binding = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, who, "*", what, how
        )
        for done in admin.create_acls([binding]).values():
            done.result(30)


def published(publisher: Publisher, rig: Rig, facts: list[dict[str, Any]]) -> bool:
    """Not when it has to be asked again."""
    with suppress(ExternalError):
        publisher.publish(rig.target, facts)
        return True
    return False


def publish(publisher: Publisher, rig: Rig, n: int) -> None:
    """As the coordinator does, until it is done: on a slow machine an id may be forgotten amid."""
    facts = rig.portion(n)
    wait_until(partial(published, publisher, rig, facts))


def test_a_right_to_write_that_is_taken_away(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "REFUSED_S", 1.0)
    publisher, done = rig.publisher(), [0]
    publish(publisher, rig, 5)
    forbid(rig.broker, rig.topic, AclOperation.WRITE)

    def publish_on() -> None:  # a broker hears of it a moment later, and it might be given back
        for done[0] in count():
            facts = rig.portion(1, run=done[0] + 2)
            while not published(publisher, rig, facts):
                pass

    with pytest.raises(AuthError, match="authorization failed"):
        publish_on()
    rig.check(5 + done[0])


def test_who_may_not_ask_for_limits_writes_all_the_same(rig: Rig) -> None:
    forbid(rig.broker, rig.topic, AclOperation.DESCRIBE_CONFIGS)
    publish(rig.publisher(), rig, 5)
    rig.check(5)


def test_transactional_ids_that_were_forgotten_come_again(rig: Rig) -> None:
    """A producer that is kept has an id that brokers know no more."""
    publisher = rig.publisher()

    for run in range(1, 4):
        facts = rig.portion(5, run=run)
        wait_until(partial(published, publisher, rig, facts))
        wait_until(lambda: not transactions([rig.broker.servers]))
    rig.check(15)
    assert list(rig.transactions().values()) == [[1, 2, 3]]


# ---- a broker that answers some questions


@contextmanager
def deaf_to(broker: Guarded, key: int) -> Iterator[str]:
    """The address at which `broker` never hears requests of one kind, see Kafka's protocol."""
    listener = socket.create_server(("127.0.0.1", broker.deaf_port))
    wires: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def begin(run: Callable[..., None], *given: socket.socket) -> None:
        threads.append(threading.Thread(target=run, args=given))
        threads[-1].start()

    def accept() -> None:
        with suppress(OSError):
            while True:
                ours, _ = listener.accept()
                theirs = socket.create_connection(("127.0.0.1", broker.heard_port))
                wires.extend((ours, theirs))
                begin(ask, ours, theirs)
                begin(answer, ours, theirs)

    def ask(ours: socket.socket, theirs: socket.socket) -> None:
        with suppress(OSError, struct.error), ours.makefile("rb") as requests:
            while True:
                head = requests.read(4)
                request = requests.read(*struct.unpack(">i", head))
                if int.from_bytes(request[:2], "big") != key:
                    theirs.sendall(head + request)

    def answer(ours: socket.socket, theirs: socket.socket) -> None:
        with suppress(OSError):
            while data := theirs.recv(1 << 16):
                ours.sendall(data)

    begin(accept)
    try:
        yield f"127.0.0.1:{broker.deaf_port}"
    finally:
        for each in (listener, *wires):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join(10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_that_nobody_tells_is_asked_for_again(broker: Guarded, kind: str) -> None:
    """A broker that was lost just then is no broker that lets us not ask."""
    topic = broker.new_topic("limits", max_message_bytes=5_000)
    with deaf_to(broker, DESCRIBE_CONFIGS) as address:
        plain = {"bootstrap.servers": address, "log_level": "0"}
        with client_of_kind(kind).Writer(plain) as writer:
            with pytest.raises(
                BrokerError, match=r"max.message.bytes of topic .* could not be read"
            ) as caught:
                writer.message_bytes_max(topic, timeout_s=0.5)
            assert caught.value.retryable
    with client_of_kind(kind).Writer(settings(broker)) as writer:
        assert writer.message_bytes_max(topic) == 5_000
