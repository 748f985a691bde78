"""How long `import fabric` takes, and what an agent weighs.

`import`: a fresh interpreter that imports the package and ends, beside others that do the same
with their engine; `seconds` is the whole process. `agent`: one agent process runs a job (an
aggregate over 1 M rows); field `rss_mb` is its resident memory after the first one and 10 s of
idleness, `rss_later_mb` after all that were timed and as long. `own_mb` and `own_later_mb` are
without the pages of files: those are shared by all processes that have them mapped, and by how much
at a time they are mapped is the kernel's.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine

IDLE_S = 10.0
N_ROWS = 1_000_000
PEERS = ("pyarrow", "polars", "duckdb", "datafusion", "pyspark.sql")


class ImportRun:
    """A fresh interpreter that imports `module`."""

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-c", f"import {module}"]

    def work(self) -> object:
        """One process."""
        return subprocess.run(self._command, check=True)

    def answer(self) -> Answer:
        """Nothing to compare."""
        return Answer(0, "none")

    def close(self) -> None:
        """Nothing is held."""


def import_fabric(case: Case) -> ImportRun:
    """Ours."""
    return ImportRun("fabric")


def import_pyarrow(case: Case) -> ImportRun:
    """What every part of Fabric needs: the floor."""
    return ImportRun("pyarrow")


def import_polars(case: Case) -> ImportRun:
    """Polars."""
    return ImportRun("polars")


def import_duckdb(case: Case) -> ImportRun:
    """DuckDB."""
    return ImportRun("duckdb")


def import_datafusion(case: Case) -> ImportRun:
    """DataFusion."""
    return ImportRun("datafusion")


def import_pyspark(case: Case) -> ImportRun:
    """PySpark's Python side; no session."""
    return ImportRun("pyspark.sql")


class AgentRun:
    """A fabric of one agent and a job of one aggregate."""

    def __init__(self) -> None:
        import fabric
        from tests.support.local import local_fabric

        self._stack = ExitStack()
        self._local = self._stack.enter_context(local_fabric(1))
        address = f"fabric://{self._local.address}"
        session = self._stack.enter_context(fabric.connect(address, token=self._local.token))
        table = pa.table({"k": [n % 1_000 for n in range(N_ROWS)], "v": range(N_ROWS)})
        self._session: Any = session
        self._query = session.read_arrow(table).group_by("k").agg(fabric.sum("v").alias("v"))

        self.work()
        self._first = self._memory()

    def work(self) -> object:
        """One job."""
        with self._session.submit(self._query) as job:
            return job.collect()

    def answer(self) -> Answer:
        """The agent's memory, each time after a while of idleness."""
        from fabric.clients.demo.checksum import checksum

        rows, digits = checksum(self.work())
        rss_mb, own_mb = self._first
        rss_later_mb, own_later_mb = self._memory()
        extra = {"rss_mb": rss_mb, "own_mb": own_mb}
        return Answer(
            rows, digits, extra | {"rss_later_mb": rss_later_mb, "own_later_mb": own_later_mb}
        )

    def _memory(self) -> tuple[float, float]:
        """MB that are resident, and those of them that are of no file."""
        time.sleep(IDLE_S)
        status = Path(f"/proc/{self._local.agents[0].process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        rss_mb, own_mb = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
        return round(rss_mb, 1), round(own_mb, 1)

    def close(self) -> None:
        """Stop the fabric."""
        self._stack.close()


def agent(case: Case) -> AgentRun:
    """Ours."""
    return AgentRun()


def engines(case: Case) -> Sequence[Engine]:
    """Peers only import."""
    if case.name == "agent":
        return [Engine(None, "bench.start:agent")]
    return [
        Engine(None, "bench.start:import_fabric"),
        *(Engine(peer, f"bench.start:import_{peer.split('.')[0]}") for peer in PEERS),
    ]


BENCHMARK = Benchmark(
    name="start",
    about="seconds to import, memory of an agent after one job and 10 s idle",
    cases=lambda _quick: [Case("import", 1, 0), Case("agent", N_ROWS, N_ROWS * 16)],
    engines=engines,
    rounds=9,
    quick_rounds=3,
)
