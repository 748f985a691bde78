"""An engine ready for one question of TPC-H over the same Parquet files.

One job: the factories the harness calls; what is compared is made alike by `comparable` after.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.tpch_questions import queries
from bench.tpch_questions.answers import comparable
from bench.tpch_questions.data import TABLES, folder, frames, plain_folder
from bench.tpch_questions.sql import QUERIES

N_AGENTS = 2
SAIL_KNOWS = (4, 2)


class Question:
    """One question, or all of them in turn; `ask` answers one as an Arrow table."""

    def __init__(self, ask: Callable[[str], pa.Table], names: list[str]) -> None:
        self._ask, self._names = ask, names

    def work(self) -> object:
        """Answer each once."""
        return [self._ask(name) for name in self._names]

    def answer(self) -> Answer:
        """Rows and checksum of all answers."""
        from fabric.clients.demo.checksum import checksum

        n_rows, total = 0, 0
        for name in self._names:
            rows, digits = checksum(comparable(self._ask(name)))
            n_rows, total = n_rows + rows, total + int(digits, 16)
        return Answer(n_rows, f"{total % (1 << 64):016x}")

    def close(self) -> None:
        """Nothing: the engine serves the next question too."""


def _names(case: Case) -> list[str]:
    found: list[str] = case.parameters["questions"]
    return found


def fabric_run(case: Case) -> Question:
    """Fabric embedded."""
    import fabric

    return _asking(fabric, case)


def agents_run(case: Case) -> Question:
    """Fabric on two warm agents."""
    return _asking(_agents(), case)


def _asking(session: Any, case: Case) -> Question:
    tables = frames(session, case.parameters["scale"])
    known = queries()
    return Question(lambda name: known[name](tables).collect(), _names(case))


@cache
def _agents() -> Any:
    import fabric
    from tests.support.local import local_fabric

    stack = ExitStack()
    atexit.register(stack.close)
    local = stack.enter_context(local_fabric(N_AGENTS))
    return stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))


def duckdb_run(case: Case) -> Question:
    """DuckDB on the same files."""
    import duckdb

    connection = duckdb.connect()
    files = folder(case.parameters["scale"])
    for name in TABLES:
        connection.execute(f"create view {name} as select * from '{files / name}.parquet'")
    return Question(lambda name: connection.sql(QUERIES[name]).to_arrow_table(), _names(case))


def daft_run(case: Case) -> Question:
    """Daft in one process, on files that it can read."""
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    import daft

    session, files = daft.Session(), plain_folder(case.parameters["scale"])
    for name in TABLES:
        session.create_temp_table(name, daft.read_parquet(str(files / f"{name}.parquet")))

    def ask(name: str) -> pa.Table:
        found = session.sql(QUERIES[name])
        assert found is not None  # only a statement without rows has none
        return found.to_arrow()

    return Question(ask, _names(case))


def sail_run(case: Case) -> Question:
    """Sail in this process, asked by Spark Connect, on the same files."""
    return _asking_spark(_sail(), case)


@cache
def _sail() -> Any:
    """A session, whose server ends with this process.

    Sail 0.7.2 refuses clients after PySpark 4.2 by the name of their version, for the functions in
    Python that it would run for them; the questions have none.
    """
    os.environ.setdefault("RUST_LOG", "error")
    import pyspark
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    if tuple(map(int, pyspark.__version__.split(".")[:2])) > SAIL_KNOWS:
        pyspark.__version__ = ".".join(map(str, (*SAIL_KNOWS, 0)))
    server = SparkConnectServer(port=0)
    server.start(background=True)
    atexit.register(server.stop)
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
    atexit.register(session.stop)
    return session


def spark_run(case: Case) -> Question:
    """Spark in one process with two threads, on the same files."""
    from bench.spark_session import local_session

    return _asking_spark(local_session(), case)


def _asking_spark(spark: Any, case: Case) -> Question:
    files = folder(case.parameters["scale"])
    for name in TABLES:
        spark.read.parquet(str(files / f"{name}.parquet")).createOrReplaceTempView(name)
    return Question(lambda name: spark.sql(QUERIES[name]).toArrow(), _names(case))
