"""A real Apache Kafka for tests: one for the whole run, or brokers of a test's own to be broken.

``python -m tests.services.kafka`` starts one and prints its address; Ctrl-C ends it.

- `kafka_broker()`: the run's broker, shared by all workers of pytest-xdist. Use topics of your own
  (`Topics.new_topic`); nobody stops it. It ends with the last process that uses it.
- `own_broker()`: a broker to kill, stop, pause and start again, on the same ports and data.
- `three_brokers()`: a cluster; topics have three replicas, of which two must be in sync.
- `sasl_broker()`, in sasl.py: listeners with passwords, tokens and client certificates.

Each is a process of its own (server.py) in KRaft mode, and its data goes with it.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException

from fabric.errors import ExternalError
from tests.services.maven import jars, java_path, prepared, run
from tests.services.server import Server, free_port, listens
from tests.services.sharing import shared
from tests.services.topics import Topics

POM = Path(__file__).with_name("kafka.xml")
JAVA = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",  # a name that is misspelt is an error
    "num.partitions": "4",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # records of 1970 would go with the first look at what is old
    "log.cleaner.dedupe.buffer.size": "4194304",  # of the heap; it would be 128 MB
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "500",
    "log.index.size.max.bytes": "1048576",
    "log.segment.delete.delay.ms": "1000",
    # What a dead producer left open is aborted within a second of its time-out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
# After a crash a broker is refused until its last session is over: 9 seconds, unless told so.
_SOON_BACK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}
_LOG4J = """
rootLogger.level=WARN
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
"""


class KafkaBroker(Server, Topics):
    """One broker, the only one of its cluster or one of several.

    Parameters
    ----------
    settings
        Lines of its server.properties, before the ones that it has by itself.
    data
        Where its logs lie, such as a small disk of its own; else in `folder`.
    node_id, voters, cluster_id
        Its place in a cluster: voters are the controllers' ports by node.
    java
        Further options of the JVM.
    """

    name = "kafka"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data: Path | None = None,
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster_id: str | None = None,
        java: tuple[str, ...] = (),
        template: Path | None = None,
    ) -> None:
        self._template = template or _template()
        super().__init__()
        self.node_id, self.cluster_id = node_id, cluster_id or _random_id()
        self.port = free_port()
        self._voters = dict(voters or {node_id: free_port()})
        self._data, self._java = data or self.folder / "data", java
        self._format()
        lines = {**SETTINGS, **self.listeners(), "node.id": str(node_id), **(settings or {})}
        lines["log.dirs"] = str(self._data)
        lines["controller.quorum.voters"] = ",".join(
            f"{node}@127.0.0.1:{port}" for node, port in self._voters.items()
        )
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        (self.folder / "server.properties").write_text(text)

    @property
    def servers(self) -> str:
        """Its address, for ``bootstrap.servers``."""
        return self.address

    @property
    def address(self) -> str:
        """The same."""
        return f"127.0.0.1:{self.port}"

    def listeners(self) -> dict[str, str]:
        """The settings that say where it listens, and how."""
        return {
            "listeners": f"PLAINTEXT://{self.servers},{self.controller()}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
        }

    def controller(self) -> str:
        """The controller's listener."""
        return f"CONTROLLER://127.0.0.1:{self._voters[self.node_id]}"

    def command(self) -> list[str]:
        """The JVM that is the broker."""
        logging = f"-Dlog4j2.configurationFile=file:{self._template}/log4j2.properties"
        archive = self._template / "classes.jsa"
        options = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        options += [*self._java, logging, "-cp", _class_path()]
        return ["java", *JAVA, *options, "kafka.Kafka", str(self.folder / "server.properties")]

    def answers(self) -> bool:
        """Whether it, and no other broker, answers at its address."""
        if not listens(self.port):
            return False
        try:
            found = self.metadata().cluster_id
        except KafkaException:
            return False
        if found != self.cluster_id:
            raise ExternalError(f"another Kafka listens at {self.servers}: cluster {found}")
        return True

    def _format(self) -> None:
        """A data folder as `kafka.tools.StorageTool` makes one, with ids of its own."""
        if not (self._template / "data").exists():
            return
        shutil.copytree(self._template / "data", self._data, dirs_exist_ok=True)
        (self._data / "meta.properties").write_text(
            f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n"
            f"directory.id={_random_id()}\n"
        )


class KafkaCluster(Topics):
    """Three brokers that are replicas of each other; each is a `KafkaBroker` of `brokers`."""

    replicas = 3

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        voters, cluster_id = {node: free_port() for node in (1, 2, 3)}, _random_id()
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
            KafkaBroker(replicated, node_id=node, voters=voters, cluster_id=cluster_id)
            for node in voters
        ]

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


def three_brokers(settings: Mapping[str, str] | None = None) -> KafkaCluster:
    """Three brokers for a `with`, which starts them; ``brokers[i]`` are as from `own_broker`."""
    return KafkaCluster(settings)


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
    _template()


@cache
def _class_path() -> str:
    """The jars, always in the same order: the archive of classes holds for that one alone."""
    return ":".join(str(jar) for jar in sorted(jars(POM).glob("*.jar")))


@cache
def _template() -> Path:
    """What brokers start from: a formatted data folder, log4j's settings, an archive of classes.

    Made once. Formatting takes seconds, and the archive halves the time that a start takes.
    """

    def make(folder: Path) -> None:
        (folder / "log4j2.properties").write_text(_LOG4J)
        settings = folder / "format.properties"
        settings.write_text(
            f"log.dirs={folder}/data\nprocess.roles=broker,controller\nnode.id=1\n"
            "controller.quorum.voters=1@127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n"
        )
        tool = ["java", *JAVA, "-cp", _class_path(), "kafka.tools.StorageTool", "format"]
        run([*tool, "-t", _random_id(), "-c", str(settings)])
        dump = f"-XX:ArchiveClassesAtExit={folder}/classes.jsa"
        with KafkaBroker(template=folder, java=(dump,)) as broker:
            broker.create_topic("archived")
            broker.produce("archived", [(b"k", b"v")])
            broker.records("archived")
            broker.stop()

    made_for = repr((java_path(), JAVA, _LOG4J)).encode()
    return prepared("kafka-template", make, POM.read_bytes(), made_for)


def _random_id() -> str:
    """A UUID as Kafka writes one; it refuses those that begin with a dash."""
    while (text := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[:22])[0] == "-":
        pass
    return text


if __name__ == "__main__":
    with own_broker({"auto.create.topics.enable": "true"}) as started:
        sys.stdout.write(f"{started.servers}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
