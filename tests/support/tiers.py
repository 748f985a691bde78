"""The tiers of the tests, and where their time goes.

One job: which tests are units (no server; `make check` runs them), what keeps them so, and the
table at the end of a run: the slowest files and the time of each tier.
"""

from __future__ import annotations

import socket
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

UNITS = (
    "fabric/",
    "tests/_cython/kernels/",
    "tests/_cython/shuffle/test_groups.py",
    "tests/checkpoint/",
    "tests/coordinator/core/",
    "tests/coordinator/optimizer/",
    "tests/coordinator/planner/",
    "tests/event_time/",
    "tests/plan/",
    "tests/security/test_secret.py",
    "tests/security/test_tokens.py",
    "tests/state/",
    "tests/support/",
    "tests/test_docs.py",
    "tests/test_layers.py",
    "tests/test_tidy.py",
)
CORES = (
    "coordinator/core/*",
    "coordinator/planner/*",
    "coordinator/optimizer/*",
    "fabric/agent/core.py",
    "fabric/checkpoint/alignment.py",
    "fabric/event_time/*",
    "fabric/plan/*",
)
"""Files of the pure cores, of which `.ci/tests coverage` prints how much the units reach."""
SPARK = (
    "tests/clients/spark/",
    "tests/clients/demo/",
    "tests/golden/",
    "tests/integration/test_tpcds",
    "tests/integration/test_tpch",
    "tests/integration/test_three_places",
    "tests/security/test_main_job_with_tls",
)
SERVERS = (("fabric.flight.server", "NativeServer"), ("grpc", "server"), ("uvicorn", "Server"))
"""Module and name of what starts a server."""
SLOWEST = 20


def tier_of(nodeid: str) -> str:
    """The tier of a test: units, Spark's, or those with servers of ours.

    >>> tier_of("tests/plan/test_check.py::test_names"), tier_of("tests/golden/test_x.py::test_y")
    ('units', 'spark')
    """
    if nodeid.startswith(UNITS):
        return "units"
    return "spark" if nodeid.startswith(SPARK) else "servers"


def seconds_by(reports: Iterable[pytest.TestReport]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of processes by file and by tier: set-up and tear-down of shared servers included."""
    files: dict[str, float] = defaultdict(float)
    tiers: dict[str, float] = defaultdict(float)
    for report in reports:
        files[report.nodeid.split("::", 1)[0]] += report.duration
        tiers[tier_of(report.nodeid)] += report.duration
    return files, tiers


def table(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Lines that say where the time of a run went."""
    files, tiers = seconds_by(reports)
    yield "seconds by tier (of all workers together)"
    for tier, seconds in sorted(tiers.items(), key=lambda item: -item[1]):
        yield f"{seconds:9.1f}  {tier}"
    yield f"the {SLOWEST} slowest files"
    for file, seconds in sorted(files.items(), key=lambda item: -item[1])[:SLOWEST]:
        yield f"{seconds:9.1f}  {file}"


def forbid_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a unit that starts a server in this process fail at that line."""

    def refused(*_args: object, **_options: object) -> None:
        raise AssertionError("a unit starts no server; see UNITS in tests/support/tiers.py")

    monkeypatch.setattr(socket.socket, "listen", refused)
    for module, server in SERVERS:
        if module in sys.modules:
            monkeypatch.setattr(sys.modules[module], server, refused)
