"""Kafka's two clients in tests: settings, reads until all has come, and waiting.

One job: what the tests of the native client and of its Python twin share. The broker is
`tests/services/kafka.py`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from fabric._cython.kafka.results import Read
from fabric.io.kafka.library import KafkaClient, client, python_client
from tests.services.topics import Topics

T = TypeVar("T")
WAIT_S = 30.0
KINDS = ("native", "python")


def client_of_kind(kind: str) -> KafkaClient:
    """The native client, which must be there, or Python's."""
    native = client()
    assert native.native, native.reason
    return native if kind == "native" else python_client("a test asks for it")


def settings(broker: Topics, **more: str) -> dict[str, str]:
    """A client's settings: ``transactional_id="x"`` is ``transactional.id``."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": broker.servers, **named}


def until(condition: Callable[[], T]) -> T:
    """What `condition` says once that is true."""
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)
    return found


def reads(reader: Any, topic: str, partition: int, n: int, **how: Any) -> Iterator[Read]:
    """Reads of a partition until `n` records came."""
    while n > 0:
        read = until(lambda: reader.read(topic, partition, **how))
        n -= read.n_records
        yield read


def rows(reader: Any, topic: str, partition: int, n: int, **how: Any) -> pa.Table:
    """The next `n` records of a partition."""
    return pa.Table.from_batches([read.batch for read in reads(reader, topic, partition, n, **how)])
