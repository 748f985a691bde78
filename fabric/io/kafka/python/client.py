"""What the Python Kafka reader and writer share: errors, statistics, settings.

One job: translate confluent-kafka's public API into the native client's terms. The two classes, in
reader.py and writer.py, are used if the native client does not support the installed
librdkafka; they create a Python object per record and take about five times the CPU time. The same
tests run against both clients.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import confluent_kafka

from fabric._cython.kafka.faults import error_of
from fabric._cython.kafka.results import Fault, Partition
from fabric.errors import InternalError

_ABANDONED: list[object] = []


def raised(error: confluent_kafka.KafkaError, what: str, *, row: int = -1) -> NoReturn:
    """Raise the Fabric error for `error`; `what` names the failed operation."""
    raise error_of(
        error.code(),
        error.name(),
        f"{what}: {error.str()}",
        fatal=error.fatal(),
        retryable=error.retriable(),
        requires_abort=error.txn_requires_abort(),
        row=row,
    )


class Watched:
    """The errors, statistics and process id of one client."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.faults: deque[Fault] = deque(maxlen=256)
        self.newest: dict[str, Any] = {}

    def callbacks(self) -> dict[str, Any]:
        """The settings that make a client report to this object."""
        return {"error_cb": self._on_error, "stats_cb": self._on_statistics}

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        found = re.match(r"(\S+) \[(\d+)\]: ", error.str())  # "topic [0]: …"
        where = (found[1], int(found[2])) if found else ("", -1)
        self.faults.append(Fault(error.code(), error.name(), error.str(), error.fatal(), *where))

    def _on_statistics(self, text: str) -> None:
        self.newest = json.loads(text)

    def check(self, client: object) -> None:
        """Raise if `client` cannot be used: it is closed, or belongs to another process."""
        if client is None:
            raise InternalError("this Kafka client is closed")
        if os.getpid() != self.process:
            raise InternalError(
                f"this Kafka client was created by process {self.process} and has no threads in a "
                "forked process; create a client after the fork"
            )

    def ends(self, client: object) -> bool:
        """Whether `client` may be closed here; in a forked process it is kept alive instead."""
        if os.getpid() == self.process:
            return True
        _ABANDONED.append(client)  # closing it would wait for threads that were not forked
        return False

    def taken(self) -> list[Fault]:
        """The errors since the last call."""
        found = list(self.faults)
        self.faults.clear()
        return found


class Client(ABC):
    """What a reader and a writer have in common: a client of confluent-kafka, and its end."""

    _client: Any
    _watched: Watched

    def _own(self) -> Any:
        self._watched.check(self._client)
        return self._client

    def logs(self) -> list[tuple[int, str]]:
        """Always empty: confluent-kafka writes its log to standard error."""
        return []

    def statistics(self) -> dict[str, Any]:
        """librdkafka's newest statistics."""
        return self._watched.newest

    @abstractmethod
    def close(self) -> None:
        """Close the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def configured(settings: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, Any]:
    """`settings` merged over `defaults`; raises `TypeError` for a value that is not a string."""
    for name, value in settings.items():
        if not isinstance(value, str):
            raise TypeError(f"setting {name} must be a string, got {type(value).__name__}")
    return {**defaults, **settings}


@contextmanager
def faults(what: str) -> Iterator[None]:
    """Raise librdkafka's errors as Fabric's; `what` names the failed operation."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raised(error.args[0], what)


def named(partition: Partition) -> str:
    """How an error message names a partition."""
    return f"partition {partition[1]} of topic '{partition[0]}'"


def size_of(message: Any) -> int:
    """The size of a message's key and value together, in bytes."""
    return len(message.key() or b"") + len(message.value() or b"")
