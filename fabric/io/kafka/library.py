"""Which Kafka client is used: the native one, or else Python's, and why.

One job: find the librdkafka bundled with the confluent-kafka wheel, reject untested versions, and
name the classes to use. Importing this module needs nothing; `client` needs the extra ``kafka``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from fabric.errors import ConfigError

if TYPE_CHECKING:
    from fabric._cython.kafka.reader import Reader as NativeReader
    from fabric._cython.kafka.writer import Writer as NativeWriter
    from fabric.io.kafka.python.reader import Reader as PythonReader
    from fabric.io.kafka.python.writer import Writer as PythonWriter

    Reader: TypeAlias = NativeReader | PythonReader
    Writer: TypeAlias = NativeWriter | PythonWriter


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """The reader and writer classes, and the librdkafka behind them."""

    Reader: type[NativeReader] | type[PythonReader]
    Writer: type[NativeWriter] | type[PythonWriter]
    version: str
    """The version of librdkafka, for example ``"2.16.0"``."""
    features: frozenset[str]
    """The features librdkafka was built with (``"ssl"``, ``"sasl_scram"``); empty if unknown."""
    reason: str
    """Why the Python client is used, as one sentence; empty for the native client."""

    @property
    def native(self) -> bool:
        """Whether records become columns without a Python object per record."""
        return not self.reason


def extension() -> str:
    """The path of confluent_kafka's extension module, which links librdkafka.

    Raises
    ------
    ConfigError
        If confluent-kafka is not installed.
    """
    try:
        from confluent_kafka import cimpl
    except ImportError as error:
        raise ConfigError(
            "Kafka needs the package confluent-kafka, which is not installed; run: "
            "pip install 'flight-fabric[kafka]'"
        ) from error
    return str(cimpl.__file__)


def refusal(why: str) -> str:
    """The sentence that tells users why the Python client is used.

    >>> refusal("it bundles librdkafka 1.9.2, and Fabric needs version 2.8.0 or a newer 2.x")
    'Kafka uses the slower Python client because of the installed confluent-kafka: it bundles \
librdkafka 1.9.2, and Fabric needs version 2.8.0 or a newer 2.x.'
    """
    return f"Kafka uses the slower Python client because of the installed confluent-kafka: {why}."


@cache
def client() -> KafkaClient:
    """The best available client; determined once per process.

    Raises
    ------
    ConfigError
        If confluent-kafka is not installed.
    """
    return client_of(extension())


def client_of(path: str) -> KafkaClient:
    """The client for the extension module at `path`: native if its librdkafka is supported."""
    from fabric._cython.kafka import handle

    if why := handle.load(path):
        return python_client(why)
    from fabric._cython.kafka.reader import Reader
    from fabric._cython.kafka.writer import Writer

    return KafkaClient(Reader, Writer, handle.version(), handle.features(), "")


def python_client(why: str) -> KafkaClient:
    """The client that uses only confluent-kafka's public API, for the reason `why`."""
    import confluent_kafka

    from fabric.io.kafka.python.reader import Reader
    from fabric.io.kafka.python.writer import Writer

    version = str(confluent_kafka.libversion()[0])
    return KafkaClient(Reader, Writer, version, frozenset(), refusal(why))
