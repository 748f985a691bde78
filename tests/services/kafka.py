"""A real Apache Kafka for tests: one for the whole run, or brokers of a test's own to be broken.

``python -m tests.services.kafka`` starts one and prints its address; Ctrl-C ends it.

- `kafka_broker()`: the run's broker, shared by all workers of pytest-xdist. Use topics of your own
  (`Topics.new_topic`); nobody stops it. It ends with the last process that uses it.
- `own_broker()`: a broker to kill, stop, pause and start again, on the same ports and data.
- `three_brokers()`: a cluster; topics have three replicas, of which two must be in sync.
- `sasl_broker()`, in sasl.py: listeners with passwords, tokens and client certificates.

Each is a process of its own as `fabric demo flights --kafka` starts one
(fabric/clients/demo/services), and its data goes with it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from fabric.clients.demo.services import kafka
from fabric.clients.demo.services.server import free_port
from tests.services import STORE
from tests.services.sharing import shared
from tests.services.topics import Topics

# After a crash a broker is refused until its last session is over: 9 seconds, unless told so.
_SOON_BACK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}


class KafkaBroker(kafka.KafkaBroker, Topics):
    """The demo's broker, started from what set-up prepared, with what tests do with topics."""

    def __init__(self, settings: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(STORE, settings, **options)


class KafkaCluster(Topics):
    """Three brokers that are replicas of each other; each is a `KafkaBroker` of `brokers`."""

    replicas = 3

    def __init__(
        self, settings: Mapping[str, str] | None = None, data: Mapping[int, Path] | None = None
    ) -> None:
        voters, cluster_id = {node: free_port() for node in (1, 2, 3)}, kafka.random_id()
        replicated = {
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            **_SOON_BACK,
            **(settings or {}),
        }
        self.brokers = [
            KafkaBroker(
                replicated, node_id=node, voters=voters, cluster_id=cluster_id,
                data=(data or {}).get(node),
            )
            for node in voters
        ]  # fmt: skip

    @property
    def servers(self) -> str:
        """Their addresses, for ``bootstrap.servers``."""
        return ",".join(broker.servers for broker in self.brokers)

    def close(self) -> None:
        """End all of them and remove their folders; may be called again."""
        for broker in self.brokers:
            broker.close()

    def __enter__(self) -> Self:
        try:
            for broker in self.brokers:
                broker.start(wait=False)
            for broker in self.brokers:
                broker.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def own_broker(
    settings: Mapping[str, str] | None = None, *, data: Path | None = None
) -> KafkaBroker:
    """A broker of a test's own, for a `with`, which starts it.

    ``kill`` is a crash, ``stop`` a clean end; after both, ``start`` has it come back with the same
    ports and data. ``pause`` has it hang until ``resume``.
    """
    return KafkaBroker({**_SOON_BACK, **(settings or {})}, data=data)


def three_brokers(
    settings: Mapping[str, str] | None = None, *, data: Mapping[int, Path] | None = None
) -> KafkaCluster:
    """Three brokers for a `with`, which starts them; ``brokers[i]`` are as from `own_broker`.

    `data` says where those of some nodes, 1 to 3, lie.
    """
    return KafkaCluster(settings, data)


class SharedBroker(Topics):
    """The run's broker; it can't be stopped, so a test can't take it from others."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    @property
    def servers(self) -> str:
        """Its address, for ``bootstrap.servers``."""
        return self._servers


def kafka_broker() -> SharedBroker:
    """The broker of this run of pytest, started by the first process that asks (sharing.py)."""
    return SharedBroker(shared("kafka", KafkaBroker))


def prepare() -> None:
    """Fetch and make what brokers start from, unless it is there."""
    kafka.prepare(STORE)


if __name__ == "__main__":
    with own_broker({"auto.create.topics.enable": "true"}) as started:
        sys.stdout.write(f"{started.servers}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
