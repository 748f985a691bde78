"""A real Apache Kafka from Maven Central, in KRaft mode, as a process of its own.

One job: `KafkaBroker`, and `kafka_problem`, which says what a machine lacks to start one. The first
start on a machine fetches the jars and makes what later ones begin with; each broker has a data
folder of its own, which goes with it. confluent-kafka, of the extra ``kafka``, asks it whether it
answers.
"""

from __future__ import annotations

import base64
import secrets
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fabric.clients.demo.services.server import (
    Server,
    free_port,
    jars,
    java_path,
    listens,
    prepared,
    run,
)
from fabric.errors import ExternalError

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
_LOG4J = """
rootLogger.level=WARN
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c{1} %m%n
"""
_NEEDED = {"mvn": "maven", "java": "openjdk-17-jre-headless", "setpriv": "util-linux"}
"""Programs, and the packages of Debian and Ubuntu that have them."""
_ANSWER_S = 5.0


def kafka_problem() -> str:
    """What is missing here to start a broker, and how to install it; empty: nothing is."""
    missing = {name: package for name, package in _NEEDED.items() if shutil.which(name) is None}
    if not missing:
        return ""
    return (
        f"no broker of Kafka can be started here: {' and '.join(missing)} can't be found; install "
        f"them (apt install {' '.join(missing.values())})"
    )


class KafkaBroker(Server):
    """One broker, the only one of its cluster or one of several.

    Parameters
    ----------
    store
        Where jars and what else all brokers start from are kept.
    settings
        Lines of its server.properties, before the ones that it has by itself.
    data
        Where its logs lie, such as a small disk of its own; else in `folder`.
    node_id, voters, cluster_id
        Its place in a cluster: voters are the controllers' ports by node.
    java
        Further options of the JVM.
    template
        What it starts from; by default the one in `store`, which is made if it is not there.
    """

    name = "kafka"

    def __init__(
        self,
        store: Path,
        settings: Mapping[str, str] | None = None,
        *,
        data: Path | None = None,
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster_id: str | None = None,
        java: tuple[str, ...] = (),
        template: Path | None = None,
    ) -> None:
        self._store = store
        self._template = template or prepare(store)
        super().__init__()
        self.node_id, self.cluster_id = node_id, cluster_id or random_id()
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
        options += [*self._java, logging, "-cp", _class_path(self._store)]
        return ["java", *JAVA, *options, "kafka.Kafka", str(self.folder / "server.properties")]

    def answers(self) -> bool:
        """Whether it, and no other broker, answers at its address."""
        if not listens(self.port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        try:
            found = admin.list_topics(timeout=_ANSWER_S).cluster_id
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
            f"directory.id={random_id()}\n"
        )


def prepare(store: Path) -> Path:
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
        tool = ["java", *JAVA, "-cp", _class_path(store), "kafka.tools.StorageTool", "format"]
        run([*tool, "-t", random_id(), "-c", str(settings)])
        dump = f"-XX:ArchiveClassesAtExit={folder}/classes.jsa"
        with KafkaBroker(store, template=folder, java=(dump,)) as broker:
            _use(broker.servers)
            broker.stop()

    made_for = repr((java_path(), JAVA, _LOG4J, str(store))).encode()
    return prepared(store, "kafka-template", make, POM.read_bytes(), made_for)


def _use(servers: str) -> None:
    """Write a record and read it, so that the classes for that are in the archive, too."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    address: dict[str, str | int | float | bool] = {"bootstrap.servers": servers}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("archived", 1)])["archived"].result(60)
    producer = Producer(address)
    producer.produce("archived", b"v", b"k")
    producer.flush(60)
    consumer = Consumer({**address, "group.id": "archived", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("archived", 0, 0)])
    consumer.consume(1, 60)
    consumer.close()


@cache
def _class_path(store: Path) -> str:
    """The jars, always in the same order: the archive of classes holds for that one alone."""
    return ":".join(str(jar) for jar in sorted(jars(store, POM).glob("*.jar")))


def random_id() -> str:
    """A UUID as Kafka writes one; it refuses those that begin with a dash."""
    while (text := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[:22])[0] == "-":
        pass
    return text
