"""The broker of the bench: one real Kafka for all engines, a process beside them.

One job: start it in the bench's own process, and find it again in those of the engines. It runs
as users run one, with its JVM's second compiler, which tests do without.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from functools import cache

from tests.services.kafka import KafkaBroker, SharedBroker

JAVA = ("-XX:TieredStopAtLevel=4", "-Xmx384m")
_WHERE = "FABRIC_BENCH_KAFKA"


@dataclass(frozen=True, slots=True)
class Broker:
    """Where it listens, and which process it is."""

    topics: SharedBroker
    pid: int

    @property
    def servers(self) -> str:
        """Its address, for ``bootstrap.servers``."""
        return self.topics.servers


@cache
def start() -> None:
    """Start it, unless it runs; it ends with this process, and processes started later find it."""
    broker = KafkaBroker(java=JAVA)
    broker.start()
    atexit.register(broker.close)
    os.environ[_WHERE] = f"{broker.servers} {broker.pid}"


def found() -> Broker:
    """The one that a parent of this process started."""
    servers, _, pid = os.environ[_WHERE].partition(" ")
    return Broker(SharedBroker(servers), int(pid))
