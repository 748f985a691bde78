"""DuckDB: the oracle, asked once when all bids are there, over Parquet files."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa

from bench.harness import Answer, Case
from bench.nexmark.answers import answer_of
from bench.nexmark.data import paths
from bench.nexmark.sql import DUCKDB, PARTITIONED, TABLES


def run(case: Case) -> DuckRun:
    """A connection a case."""
    return DuckRun(case)


class DuckRun:
    """One question."""

    def __init__(self, case: Case) -> None:
        import duckdb

        self._case, self._cores = case, case.parameters["cores"]
        self._connection = duckdb.connect(config={"threads": self._cores})
        self._connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def work(self) -> object:
        """One query over all files."""
        found = self._ask(self._case.parameters["events"])
        if self._case.name in PARTITIONED:
            with tempfile.TemporaryDirectory(prefix="fabric-bench-nexmark-") as folder:
                found.write_parquet(
                    folder, partition_by=PARTITIONED[self._case.name], overwrite=True
                )
            return None
        return found.to_arrow_table()

    def answer(self) -> Answer:
        """Of the first bids."""
        batches = self.batches()
        return answer_of(self._case.name, batches, cores=self._cores, slots=self._cores)

    def batches(self) -> list[pa.RecordBatch]:
        """What is found of the first bids."""
        found: list[pa.RecordBatch] = (
            self._ask(self._case.parameters["checked"]).to_arrow_table().to_batches()
        )
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _ask(self, n_events: int) -> Any:
        for table in TABLES[self._case.name]:
            files = paths(n_events, self._cores, table, "parquet")
            self._connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {table} AS FROM read_parquet({files!r})"
            )
        return self._connection.sql(DUCKDB[self._case.name])
