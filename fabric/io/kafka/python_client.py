"""What Python's Kafka reader and writer have in common: faults, statistics, settings.

One job: the way from confluent-kafka's public interface to the native client's words. The two
classes, in python_reader.py and python_writer.py, are used where the native client refuses the
installed librdkafka, with a Python object a record and about five times its CPU; the tests of both
hold them against each other.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import confluent_kafka

from fabric._cython.kafka.faults import error_of
from fabric._cython.kafka.results import Fault, Partition
from fabric.errors import InternalError

_ABANDONED: list[object] = []


def raised(error: confluent_kafka.KafkaError, what: str, *, row: int = -1) -> NoReturn:
    """Raise what `error` is for Fabric."""
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
    """Faults, statistics and the process of one client."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.faults: deque[Fault] = deque(maxlen=256)
        self.newest: dict[str, Any] = {}

    def callbacks(self) -> dict[str, Any]:
        """The settings that make a client tell this object."""
        return {"error_cb": self._on_error, "stats_cb": self._on_statistics}

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        found = re.match(r"(\S+) \[(\d+)\]: ", error.str())  # "topic [0]: …"
        where = (found[1], int(found[2])) if found else ("", -1)
        self.faults.append(Fault(error.code(), error.name(), error.str(), error.fatal(), *where))

    def _on_statistics(self, text: str) -> None:
        self.newest = json.loads(text)

    def check(self, client: object) -> None:
        """Raise where `client` can't be used: it is closed, or another process made it."""
        if client is None:
            raise InternalError("this Kafka client is closed")
        if os.getpid() != self.process:
            raise InternalError(
                f"this Kafka client was made by process {self.process}; "
                "a forked one has none of its threads: make a client after the fork"
            )

    def ends(self, client: object) -> bool:
        """Whether `client` may be ended here; in a forked process it is never let go instead."""
        if os.getpid() == self.process:
            return True
        _ABANDONED.append(client)  # ending it would wait for threads that only its maker has
        return False

    def taken(self) -> list[Fault]:
        """What went wrong since the last call."""
        found = list(self.faults)
        self.faults.clear()
        return found


def configured(settings: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, Any]:
    """Settings over defaults, all texts."""
    for name, value in settings.items():
        if not isinstance(value, str):
            raise TypeError(f"setting {name} must be a text, got {type(value).__name__}")
    return {**defaults, **settings}


@contextmanager
def faults(what: str) -> Iterator[None]:
    """librdkafka's errors as Fabric's, with `what` was to be done."""
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raised(error.args[0], what)


def named(partition: Partition) -> str:
    """A partition in a message."""
    return f"partition {partition[1]} of topic '{partition[0]}'"


def size_of(message: Any) -> int:
    """The bytes of a message's key and value."""
    return len(message.key() or b"") + len(message.value() or b"")
