"""The oldest confluent-kafka that is supported has the native client, too."""

from __future__ import annotations

import subprocess
import sys

from tests.support.oldest_kafka import VERSION, with_oldest_kafka

CODE = "from fabric.io.kafka.library import client as c; print(c().version, c().native, c().reason)"


def test_the_native_client_runs_over_the_oldest_one() -> None:
    found = subprocess.run(
        [sys.executable, "-c", CODE],
        env=with_oldest_kafka(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == [VERSION, "True"]
