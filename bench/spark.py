"""Spark through Fabric, and Fabric beside Spark.

"read": Spark sums all columns of a Fabric dataset through the connector; "write": it writes one;
the peer does the same with Parquet files. "shuffle aggregate": rows are exchanged by a key of 1 M
values and summed, by two warm agents and by Spark in one process and on two executors, each from
the files it reads best (Arrow IPC here, Parquet there).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine
from bench.made import made, write_both

N_ROWS, N_ROWS_LARGE, N_ROWS_QUICK = 10_000_000, 50_000_000, 2_000_000
N_KEYS = 1_000_000
N_AGENTS = 2
BYTES_A_ROW = 24
_PART_ROWS = 2_500_000


def folder(rows: int) -> Path:
    """Files of k: int64, v: int64, w: float64 as Arrow IPC and as Parquet; made when not there."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(seed=4)
        for number, start in enumerate(range(0, rows, _PART_ROWS)):
            _write(folder, number, rng, min(_PART_ROWS, rows - start))

    return made("spark", str(rows), write)


def _write(target: Path, number: int, rng: np.random.Generator, rows: int) -> None:
    table = pa.table({
        "k": rng.integers(0, N_KEYS, rows),
        "v": rng.integers(0, 100, rows),
        "w": rng.integers(0, 4_000, rows) / 4,
    })  # fmt: skip
    write_both(target / f"part-{number}.arrow", table)


class Job:
    """What is timed, and the table it answers with."""

    def __init__(self, work: Callable[[], Any], answer: Callable[[], pa.Table]) -> None:
        self._work, self._answer = work, answer

    def work(self) -> object:
        """Do it once."""
        return self._work()

    def answer(self) -> Answer:
        """Rows and checksum of the answer."""
        from fabric.clients.demo.checksum import checksum

        return Answer(*checksum(self._answer()))

    def close(self) -> None:
        """Nothing: sessions serve the next case too."""


@cache
def _fabric() -> Any:
    """Two agents, and a session on them."""
    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    atexit.register(stack.close)
    local = stack.enter_context(local_fabric(N_AGENTS))
    os.environ["FABRIC_TOKEN"] = local.token
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    return local, session


@cache
def _spark() -> Any:
    from bench.spark_session import local_session

    return local_session()


@cache
def _installed() -> Any:
    """A Spark session that knows the connector; the token is set before Spark starts."""
    import fabric

    _fabric()
    spark = _spark()
    fabric.spark.install(spark)
    return spark


def _sums(frame: Any) -> pa.Table:
    from pyspark.sql import functions as sf

    found: pa.Table = frame.agg(
        sf.count("*").alias("n"), *(sf.sum(name).alias(name) for name in ("k", "v", "w"))
    ).toArrow()
    return found


@cache
def _dataset(rows: int) -> str:
    """The rows as a dataset of four partitions on two agents."""
    _, session = _fabric()
    name = f"bench_{rows}"
    frame = session.read_ipc(str(folder(rows) / "*.arrow"))
    frame.write_dataset(name, keys="k", n_partitions=4, mode="overwrite")
    return name


def _options() -> dict[str, str]:
    local, _ = _fabric()
    return {"url": f"fabric://{local.address}"}


def read_run(case: Case) -> Job:
    """Spark reads a Fabric dataset."""
    spark = _installed()
    name = _dataset(case.rows)

    def work() -> pa.Table:
        return _sums(spark.read.format("fabric").options(**_options()).load(name))

    return Job(work, work)


def read_parquet_run(case: Case) -> Job:
    """Spark reads Parquet."""
    spark = _spark()

    def work() -> pa.Table:
        return _sums(spark.read.parquet(str(folder(case.rows) / "*.parquet")))

    return Job(work, work)


def write_run(case: Case) -> Job:
    """Spark writes a Fabric dataset, partitioned by our kernel."""
    spark = _installed()
    source = spark.read.parquet(str(folder(case.rows) / "*.parquet"))
    options = {**_options(), "keys": "k", "partitions": "4"}

    def work() -> None:
        writer = source.write.format("fabric").options(**options)
        writer.mode("overwrite").save("bench_written")

    def answer() -> pa.Table:
        return _sums(spark.read.format("fabric").options(**_options()).load("bench_written"))

    return Job(work, answer)


def write_parquet_run(case: Case) -> Job:
    """Spark writes Parquet."""
    spark = _spark()
    source = spark.read.parquet(str(folder(case.rows) / "*.parquet"))
    target = Path(tempfile.mkdtemp()) / "written"
    atexit.register(shutil.rmtree, target.parent, ignore_errors=True)

    def work() -> None:
        source.write.mode("overwrite").parquet(str(target))

    return Job(work, lambda: _sums(spark.read.parquet(str(target))))


def aggregate_run(case: Case) -> Job:
    """Two warm agents; the rows themselves are exchanged, then summed."""
    import fabric

    _, session = _fabric()
    frame = (
        session.read_ipc(str(folder(case.rows) / "*.arrow"))
        .exchange("k")
        .group_by("k")
        .agg(n=fabric.count(), v=fabric.sum("v"), w=fabric.sum("w"))
    )

    def work() -> pa.Table:
        with session.submit(frame.plan) as job:
            return job.wait().collect()

    return Job(work, work)


def _spark_aggregate(spark: Any, case: Case) -> Job:
    from pyspark.sql import functions as sf

    def work() -> pa.Table:
        frame = spark.read.parquet(str(folder(case.rows) / "*.parquet")).repartition(4, "k")
        found: pa.Table = (
            frame.groupBy("k")
            .agg(sf.count("*").alias("n"), sf.sum("v").alias("v"), sf.sum("w").alias("w"))
            .toArrow()
        )
        return found

    return Job(work, work)


def local_run(case: Case) -> Job:
    """Spark local[2]."""
    return _spark_aggregate(_spark(), case)


def cluster_run(case: Case) -> Job:
    """Spark on two executors."""
    from bench.spark_session import cluster_session

    return _spark_aggregate(cluster_session(), case)


def cases(quick: bool) -> Sequence[Case]:
    """Read and write of 10 M rows; the aggregate of 10 M and 50 M."""
    rows = N_ROWS_QUICK if quick else N_ROWS
    found = [Case(name, rows, rows * BYTES_A_ROW) for name in ("read", "write")]
    for n in (rows,) if quick else (rows, N_ROWS_LARGE):
        name = f"shuffle aggregate {n // 1_000_000}M"
        found.append(Case(name, n, n * BYTES_A_ROW))
    return found


def engines(case: Case) -> Sequence[Engine]:
    """Ours and the peers of the case."""
    if case.name.startswith("shuffle"):
        peers = [("spark local[2]", "local_run"), ("spark local-cluster", "cluster_run")]
        return [
            Engine(None, "bench.spark:aggregate_run"),
            *(Engine(peer, f"bench.spark:{name}") for peer, name in peers),
        ]
    return [
        Engine(None, f"bench.spark:{case.name}_run"),
        Engine("spark parquet", f"bench.spark:{case.name}_parquet_run"),
    ]


BENCHMARK = Benchmark(
    name="spark",
    about="Spark through the connector, and Fabric's shuffle beside Spark's",
    cases=cases,
    engines=engines,
    rounds=5,
    quick_rounds=3,
    round_s=1.0,
)
