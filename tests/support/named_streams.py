"""Programs of streams with a name, to be killed and run again, and what DuckDB says of their rows.

One job: five kinds of state: windows, sessions, the best of each window, a function with timers,
and a stream joined with a table. `main` runs one, see `tests.support.forked.program`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

import fabric
from fabric import DataFrame, Process, ProcessContext, col, count, streams
from fabric.clients.session.session import Session

START = datetime(2024, 5, 1, tzinfo=UTC)
N_ROWS, N_KEYS = 4_000, 20


class Counting(Process):
    """The rows of each key in a second of event time, when that is over."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> None:
        """Count them by the second that they are in."""
        for at_us in rows.column("ts").cast(pa.int64()).to_pylist():
            end = at_us // 1_000_000 + 1
            seconds = ctx.state("seconds")
            seconds.put(end, (seconds.get(end) or 0) + 1)
            ctx.timers.set(end * 1_000_000)

    def on_timer(self, ctx: ProcessContext, key: int, time: int, domain: str) -> dict[str, int]:
        """Put out the count of the second that ends."""
        seconds = ctx.state("seconds")
        n = seconds.get(time // 1_000_000)
        seconds.remove(time // 1_000_000)
        return {"key": key, "at": time // 1_000_000 - 1, "n": n}


def generated(session: Session, rows_per_s: int = 0, n_rows: int = N_ROWS) -> DataFrame:
    """The rows that all programs read."""
    made = streams.generator(
        n_rows=n_rows, n_splits=2, n_keys=N_KEYS, seed=4, start=START, rows_per_s=rows_per_s,
        disorder="20 ms", session=session,
    )  # fmt: skip
    return made.with_watermark("ts", "30 ms")


def counted(rows: DataFrame) -> DataFrame:
    """Rows a key and second."""
    windows = rows.group_by("key").window("1 second").agg(count().alias("n"))
    return windows.select("key", col("window_start").dt.epoch("s").alias("at"), "n")


def sessions(rows: DataFrame) -> DataFrame:
    """Rows of each key that follow each other within 40 ms."""
    return rows.group_by("key").window(fabric.session("40 ms")).agg(count().alias("n"))


def best(rows: DataFrame) -> DataFrame:
    """The two largest values of each second."""
    windows = rows.assign_windows("1 second")
    ranked = windows.top_n(2, by=col("value").desc(), keys=["window_start", "window_end"])
    return ranked.select("split", "row", "value")


def functions(rows: DataFrame) -> DataFrame:
    """The same as `counted`, by a function with timers."""
    return rows.process(
        Counting(), keys="key", schema={"key": "int64", "at": "int64", "n": "int64"},
        state={"seconds": streams.map_state("int64", "int64")}, timers="event",
    )  # fmt: skip


def joined(rows: DataFrame) -> DataFrame:
    """The rows of even keys with a name from a table."""
    even = list(range(0, N_KEYS, 2))
    names = fabric.from_dict({"key": even, "name": [str(key) for key in even]})
    return rows.join(names, on="key").select("split", "row", "name")


_SECOND = "epoch_us(ts) // 1000000"
_BEGUN = """SELECT *, epoch_us(ts) AS t,
    t - lag(t) OVER (PARTITION BY key ORDER BY t) <= 40000 AS g FROM made"""
_NUMBERED = f"""SELECT *, count(*) FILTER (WHERE g IS NOT TRUE)
    OVER (PARTITION BY key ORDER BY t ROWS UNBOUNDED PRECEDING) AS number FROM ({_BEGUN})"""
_COUNTS = f"SELECT key, {_SECOND} AS at, count(*) AS n FROM made GROUP BY ALL"
KINDS = {
    "count": (counted, _COUNTS),
    "session": (
        sessions,
        f"""SELECT key, make_timestamptz(min(t)) AS window_start,
        make_timestamptz(max(t) + 40000) AS window_end, count(*) AS n
        FROM ({_NUMBERED}) GROUP BY key, number""",
    ),
    "top": (
        best,
        f"""SELECT split, row, value FROM made
        QUALIFY row_number() OVER (PARTITION BY {_SECOND} ORDER BY value DESC) <= 2""",
    ),
    "process": (functions, _COUNTS),
    "lookup": (joined, "SELECT split, row, key::text AS name FROM made WHERE key % 2 = 0"),
}


def differing(kind: str, folder: Path, n_rows: int = N_ROWS) -> str:
    """How the files in `folder` differ from DuckDB's rows; nothing when they are the same."""
    with fabric.connect() as session:
        made = generated(session, n_rows=n_rows).to_arrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("made", made)
        connection.execute(f"CREATE TABLE wanted AS {KINDS[kind][1]}")
        names = ", ".join(f'"{row[0]}"' for row in connection.execute("DESCRIBE wanted").fetchall())
        connection.execute(
            f"CREATE TABLE found AS SELECT {names} FROM read_parquet('{folder}/*.parquet')"
        )
        (n_wanted,) = connection.execute("SELECT count(*) FROM wanted").fetchone() or (0,)
        assert n_wanted
        counts = [
            connection.execute(
                f"SELECT count(*) FROM (SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b})"
            ).fetchone()
            for a, b in (("wanted", "found"), ("found", "wanted"))
        ]
    (lost,), (added,) = counts  # type: ignore[misc]
    return f"{lost} rows lost, {added} doubled or invented" if lost or added else ""


def main(kind: str, folder: str, rows_per_s: str, address: str = "") -> None:
    """Run one to its end; times are those of `generated` at 1,000 rows a second, or none."""
    with fabric.connect(address) if address else fabric.connect() as session:
        session.checkpoints(interval_s=0.2)
        frame = KINDS[kind][0](generated(session, int(rows_per_s)))
        frame.write_stream(folder, name=f"{kind} by key", parallelism=2).wait()
