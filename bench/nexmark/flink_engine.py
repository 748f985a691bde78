"""Flink SQL: one session for all questions, a slot a core, Parquet files to nowhere."""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as paj
import pyarrow.parquet as pq

from bench.harness import Answer, Case
from bench.nexmark import flink_home, flink_sql
from bench.nexmark.answers import KIND, answer_of, partitioned
from bench.nexmark.data import START_EVENTS, n_rows, paths
from bench.nexmark.sql import PARTITIONED, TABLES

_TEXTS = {
    "day": pa.date32(), **dict.fromkeys(["dateTime", "expires", "bid_time"], pa.timestamp("us"))
}  # fmt: skip
"""Columns that are texts in JSON."""
_TYPES = {
    **dict.fromkeys(["avg_price", "avg_final"], pa.float64()), **dict.fromkeys(_TEXTS, pa.string())
}  # fmt: skip
STATE = "heap"
"""Where the state of all steps lies."""
_JSON_BLOCK = 64 << 20


def run(case: Case) -> FlinkRun:
    """In the session of this process."""
    return FlinkRun(case, server(case.parameters["cores"]))


@lru_cache(maxsize=1)
def server(slots: int) -> FlinkServer:
    """The session; it ends with this process."""
    started = FlinkServer(slots)
    atexit.register(started.close)
    return started


class FlinkServer:
    """The other end of `flink_server.py`; `settings` are beside those of all questions."""

    def __init__(self, slots: int, settings: Mapping[str, str] | None = None) -> None:
        home = flink_home.home()
        script = Path(__file__).with_name("flink_server.py")
        begin = time.perf_counter()
        self._process = subprocess.Popen(
            [flink_home.python(home), str(script)], env=flink_home.environment(home), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        own = {**flink_sql.SETTINGS, **(settings or {})}
        self.ask("start", settings=own, slots=slots)
        self.start_s = time.perf_counter() - begin

    def ask(self, command: str, **facts: object) -> dict[str, Any]:
        """Its answer; `RuntimeError` when there is none, or Flink failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": command, **facts}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Flink's session has died")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise RuntimeError(found["error"])
        return found

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class FlinkRun:
    """One question."""

    def __init__(self, case: Case, server: FlinkServer) -> None:
        self._case, self._server = case, server
        self._cores = case.parameters["cores"]
        self._n_events, self._n_checked = case.parameters["events"], case.parameters["checked"]
        self._start_s = self._cpu_s = 0.0

    def work(self) -> object:
        """One job over all files."""
        done = self._write(self._n_events)
        self._cpu_s = done["cpu_s"]
        return None

    def beside(self) -> None:
        """Start and end a job."""
        done = self._write(START_EVENTS)
        self._start_s = done["seconds"]

    def answer(self) -> Answer:
        """Of the first bids; and how long it takes to read all of them."""
        parsing = self._run(flink_sql.only_parsing(self._case.name), self._n_events)
        parsing_s = parsing["seconds"] - self._start_s
        return answer_of(
            self._case.name, self.batches(), cores=self._cores, slots=self._cores,
            session_s=round(self._server.start_s, 1), start_s=round(self._start_s, 3),
            cpu_s=round(self._cpu_s, 2), parsing_s=round(parsing_s, 3), state=STATE,
        )  # fmt: skip

    def batches(self) -> list[pa.RecordBatch]:
        """What is found of the first bids."""
        if self._case.name == "q12":
            return [pa.record_batch({"bid_count": [self._sum()]})]
        with tempfile.TemporaryDirectory(prefix="fabric-bench-flink-") as folder:
            self._run(flink_sql.to_files(self._case.name, folder), self._n_checked)
            if self._case.name in PARTITIONED:
                return partitioned(folder, PARTITIONED[self._case.name])
            files = sorted(path for path in Path(folder).iterdir() if path.name[0] not in "._")
            read = changes if self._case.name in flink_sql.CHANGING else pq.read_table
            return [batch for path in files for batch in read(path).to_batches()]

    def close(self) -> None:
        """The session stays for the next question."""

    def _write(self, n_events: int) -> dict[str, Any]:
        """A job over so many events that drops its answer, or writes the files that are asked."""
        if self._case.name not in PARTITIONED:
            return self._run(flink_sql.to_nowhere(self._case.name), n_events)
        with tempfile.TemporaryDirectory(prefix="fabric-bench-flink-") as folder:
            return self._run(flink_sql.to_files(self._case.name, folder), n_events)

    def _run(self, statement: str, n_events: int) -> dict[str, Any]:
        return self._server.ask("sql", statements=[*self._tables(n_events), statement])

    def _sum(self) -> int:
        """Flink forgets what windows of its clock hold when the input ends, so it must not end."""
        query = f"SELECT bid_count FROM ({flink_sql.FLINK['q12']})"
        tables = self._tables(self._n_checked, endless=True)
        found = self._server.ask(
            "sum", statements=[*tables, query], until=n_rows("bid", self._n_checked)
        )
        total: int = found["sum"]
        return total

    def _tables(self, n_events: int, *, endless: bool = False) -> list[str]:
        folders = {
            table: str(Path(paths(n_events, self._cores, table, "parquet")[0]).parent)
            for table in TABLES[self._case.name]
        }
        return flink_sql.tables(self._case.name, folders, endless=endless)


def changes(path: Path) -> pa.Table:
    """Changes as rows with their kind."""
    whole = paj.ReadOptions(block_size=_JSON_BLOCK)
    told = paj.read_json(path, whole)
    row = next(f.type for f in told.schema if pa.types.is_struct(f.type))
    row = pa.struct([(f.name, _TYPES.get(f.name, f.type)) for f in row])
    sides = pa.schema([(side, row) for side in ("before", "after")])
    told = paj.read_json(path, whole, paj.ParseOptions(explicit_schema=sides))
    pieces = []
    for kind, side in (("-U", "before"), ("+U", "after")):
        rows = pa.chunked_array(told.filter(told[side].is_valid())[side].chunks, row)
        flat = pa.Table.from_struct_array(rows.combine_chunks())  # which may be none
        for name in _TEXTS.keys() & set(flat.column_names):
            at = flat.column_names.index(name)
            flat = flat.set_column(at, name, flat[name].cast(_TEXTS[name]))
        kinds = pa.array([kind] * flat.num_rows, pa.string())
        pieces.append(flat.add_column(0, KIND, kinds))
    return pa.concat_tables(pieces)
