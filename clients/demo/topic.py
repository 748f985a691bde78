"""The flights of the year in a topic of Kafka: `fabric demo flights --kafka`.

One job: a broker to use (`broker`), the topic filled by Fabric, and the stream that reads it again.
An origin is a partition, so each comes in the order in which its flights left.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import fabric
from fabric import col, when
from fabric.clients.demo import replay
from fabric.clients.demo.services.kafka import KafkaBroker, kafka_problem
from fabric.config import FabricHome
from fabric.errors import ExternalError, NotFoundError
from fabric.io.kafka.library import client

if TYPE_CHECKING:
    from fabric import DataFrame, Job, Session

ORIGINS = ("EWR", "JFK", "LGA")
_WAIT_S = 10.0


class Topic:
    """The topic `name` of the brokers at `servers`."""

    def __init__(self, servers: str, name: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers, self.name = servers, name
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def create(self) -> None:
        """Make it, a partition an origin.

        Raises
        ------
        ExternalError
            If the brokers don't answer, or refuse.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        asked = self._admin.create_topics(
            [NewTopic(self.name, len(ORIGINS))], request_timeout=_WAIT_S
        )
        try:
            asked[self.name].result()
        except KafkaException as error:
            raise ExternalError(
                f"the topic {self.name!r} could not be created at {self.servers}: "
                f"{error.args[0].str()}; check that Kafka is running there"
            ) from error

    def remove(self) -> None:
        """Delete it.

        Raises
        ------
        ExternalError
            If it can't be.
        """
        from confluent_kafka import KafkaException

        asked = self._admin.delete_topics([self.name], request_timeout=_WAIT_S)
        try:
            asked[self.name].result()
        except KafkaException as error:
            raise ExternalError(
                f"the topic {self.name!r} could not be deleted at {self.servers}: "
                f"{error.args[0].str()}"
            ) from error

    def fill(self, session: Session, prepared: Path) -> Job:
        """Write the flights, in the order of their departure, each once; the job that did it."""
        table = session.read_parquet(prepared)
        flights = fabric.streams.replay(table, "departed", split_by="origin")
        first, second, third = ORIGINS
        partition = (
            when(col("origin") == first).then(0)
            .when(col("origin") == second).then(1)
            .when(col("origin") == third).then(2)
        )  # fmt: skip
        return flights.with_columns(partition=partition).write_kafka(
            self.name, servers=self.servers, key="origin", partitioner=col("partition"),
            name="flights to Kafka",
        ).wait()  # fmt: skip

    def stream(self, session: Session, prepared: Path) -> DataFrame:
        """The flights once more, as `replay.from_file` has them, but out of the topic."""
        table = session.read_parquet(prepared)
        return fabric.read_kafka(
            self.name, servers=self.servers, schema=table.schema, until="now",
            rows_per_s=table.count() // replay.SECONDS, session=session,
        )  # fmt: skip


def check(servers: str = "") -> None:
    """Refuse what can't work for lack of a program or package, and say how to install it.

    Raises
    ------
    ConfigError
        If confluent-kafka is not installed.
    NotFoundError
        If no broker is given, and one can't be started here.
    """
    client()
    if not servers and (problem := kafka_problem()):
        raise NotFoundError(
            f"{problem}, or name brokers that run: fabric demo flights --servers HOST:PORT"
        )


@contextmanager
def new_topic(servers: str = "") -> Iterator[Topic]:
    """A new topic at `servers`, or of a broker that is started for it; both end with the `with`.

    Raises
    ------
    ExternalError
        If no broker answers at `servers`, or the one that is started fails.
    """
    with nullcontext() if servers else KafkaBroker(store()) as broker:
        topic = Topic(broker.servers if broker else servers, f"flights-{secrets.token_hex(4)}")
        topic.create()
        try:
            yield topic
        finally:
            if broker is None:
                topic.remove()


def store() -> Path:
    """Where the files of Kafka are kept from one demo to the next."""
    return FabricHome().root / "services"
