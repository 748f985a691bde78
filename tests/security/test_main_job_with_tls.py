"""The main job between two network namespaces that speak TLS alone; in the soak with Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.netns import Network, why_not
from tests.support.netns_fabric import make_certificate
from tests.support.netns_processes import PLACES

AGREES = r"agrees with DuckDB: 23,907 rows, checksum [0-9a-f]{16} \((\d) comparisons\)"
TIMEOUT_S = 600.0


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize(
    "options", [["--without-spark"], pytest.param([], marks=pytest.mark.soak)], ids=" ".join
)
def test_the_main_job_between_two_namespaces(options: list[str], tmp_path: Path) -> None:
    with Network() as network:
        addresses = [network.add(name) for name in ("one", "two")]
        certificate, key = make_certificate(tmp_path, addresses)
        places = [(network.inside(name), network.address(name)) for name in ("one", "two")]
        tls = {
            f"FABRIC_{section}_TLS_{name}": str(path)
            for section in ("COORDINATOR", "AGENT")
            for name, path in (
                ("CERTIFICATE", certificate), ("KEY", key), ("ROOTS", certificate),
            )
        }  # fmt: skip
        environ = {
            **os.environ,
            **tls,
            PLACES: json.dumps(places),
            "FABRIC_COORDINATOR_HOST": addresses[0],
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.netns_processes", *options],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S,
        )  # fmt: skip
    log = tmp_path / "out" / "flights" / "fabric.log"
    said = done.stdout + done.stderr + (log.read_text()[-3000:] if log.exists() else "")
    assert done.returncode == 0, said
    found = re.search(AGREES, done.stdout)
    assert found is not None, said
    assert found[1] == "8"
    assert ("PySpark reads both results back through Flight" in done.stdout) == (not options)
    assert "DIFFERS" not in done.stdout
    told = log.read_text()
    for address in addresses:
        assert f"grpc+tls://{address}:" in told
    assert "grpc+tcp://" not in told
