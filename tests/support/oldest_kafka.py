"""The oldest confluent-kafka that is supported, with the librdkafka that it brings, for tests.

One job: `oldest_kafka`, a folder for the front of another process's ``PYTHONPATH``. It is filled
once, by pip with hashes checked, and kept in build/.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fabric.clients.demo.services.server import prepared, run
from tests.services import STORE

LOCK = Path(__file__).resolve().parent.parent.parent / "requirements" / "kafka_oldest.lock"
VERSION = "2.8.0"
"""Of librdkafka there."""


def oldest_kafka() -> Path:
    """A folder that holds confluent-kafka 2.8.0 and nothing else."""

    def make(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, "--no-deps", "--require-hashes", "-r", str(LOCK), "--target", str(folder)])

    return prepared(STORE, "kafka-oldest", make, LOCK.read_bytes(), sys.version.encode())


def with_oldest_kafka() -> dict[str, str]:
    """The environment of a process that finds it before the installed one."""
    path = os.pathsep.join([str(oldest_kafka()), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
