"""One agent that all tests of a file share, and that none of them may harm.

One job: `lone_agent` and `unharmed`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until


@contextmanager
def lone_agent(slots: int, environ: dict[str, str]) -> Iterator[LocalFabric]:
    """A fabric of one agent that is attached; `environ` is this process's meanwhile, too."""
    with patch.dict(os.environ, environ), local_fabric(1, slots=slots) as running:
        log = running.agents[0].log
        wait_until(lambda: "agent attached" in log.read_text())
        yield running


@contextmanager
def unharmed(running: LocalFabric) -> Iterator[None]:
    """At the end the agent is the process of before, and was never away."""
    process, log = running.agents[0].process, running.agents[0].log
    attached = log.read_text().count("agent attached")
    yield
    assert running.agents[0].process is process
    assert process.poll() is None
    assert log.read_text().count("agent attached") == attached
    assert "coordinator lost" not in log.read_text()
