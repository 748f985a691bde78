"""Which Kafka client there is: the native one, else Python's, and why.

One job: find the librdkafka that the confluent-kafka wheel carries, refuse what was never run, and
name the classes to use. Importing this module needs nothing; `client` wants the extra ``kafka``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from fabric.errors import ConfigError

if TYPE_CHECKING:
    from fabric._cython.kafka.reader import Reader as NativeReader
    from fabric._cython.kafka.writer import Writer as NativeWriter
    from fabric.io.kafka.python_reader import Reader as PythonReader
    from fabric.io.kafka.python_writer import Writer as PythonWriter

    Reader: TypeAlias = NativeReader | PythonReader
    Writer: TypeAlias = NativeWriter | PythonWriter

VERSION_MIN = "2.8.0"


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """The classes to read and write with, and what they stand on."""

    Reader: type[NativeReader] | type[PythonReader]
    Writer: type[NativeWriter] | type[PythonWriter]
    version: str
    """Of librdkafka, for example ``"2.16.0"``."""
    features: frozenset[str]
    """What it was built with (``"ssl"``, ``"sasl_scram"``); empty: not known."""
    reason: str
    """Why the Python client is used, as one sentence; empty: the native one is."""

    @property
    def native(self) -> bool:
        """Whether records stay columns, without a Python object each."""
        return not self.reason


def extension() -> str:
    """The file of confluent_kafka's extension module, which librdkafka is found behind.

    Raises
    ------
    ConfigError
        If confluent-kafka is not installed.
    """
    try:
        from confluent_kafka import cimpl
    except ImportError as error:
        raise ConfigError(
            "Kafka needs confluent-kafka, which is not installed: "
            "pip install 'flight-fabric[kafka]'"
        ) from error
    return str(cimpl.__file__)


def refusal(why: str) -> str:
    """The sentence for users.

    >>> refusal("it brings librdkafka 1.9.2, 2.8.0 or newer of version 2 is needed")
    'Kafka is read and written by the slower Python client, because of the installed \
confluent-kafka: it brings librdkafka 1.9.2, 2.8.0 or newer of version 2 is needed.'
    """
    return (
        "Kafka is read and written by the slower Python client, because of the installed "
        f"confluent-kafka: {why}."
    )


@cache
def client() -> KafkaClient:
    """The best client there is; found once a process.

    Raises
    ------
    ConfigError
        If confluent-kafka is not installed.
    """
    return client_of(extension())


def client_of(path: str) -> KafkaClient:
    """The client that the extension module at `path` allows."""
    from fabric._cython.kafka import handle

    if why := handle.load(path):
        return python_client(why)
    from fabric._cython.kafka.reader import Reader
    from fabric._cython.kafka.writer import Writer

    return KafkaClient(Reader, Writer, handle.version(), handle.features(), "")


def python_client(why: str) -> KafkaClient:
    """The client that only uses confluent-kafka's public interface, for the reason `why`."""
    import confluent_kafka

    from fabric.io.kafka.python_reader import Reader
    from fabric.io.kafka.python_writer import Writer

    version = str(confluent_kafka.libversion()[0])
    return KafkaClient(Reader, Writer, version, frozenset(), refusal(why))
