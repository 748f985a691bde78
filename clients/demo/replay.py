"""The flights of the year as a stream: windows by schedule, late rows aside, an agent lost.

One job: step 3 of the demo. Flights come in the order in which they left, one split an origin;
their event time is when they should have left. That is really out of order: with a bound of two
hours some rows come too late for their window of an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import fabric
from fabric import col, count, mean
from fabric.clients.demo import questions
from fabric.errors import ExternalError

if TYPE_CHECKING:
    from fabric import DataFrame, Job, Session

SECONDS = 8
"""What the year lasts."""
YEAR_S = 365 * 24 * 3600
BOUND, WINDOW = "2 hours", "1 hour"
CHECKPOINT_S = 1.0
NAMES = ("delays_by_hour", "late_flights")
_RUNS = ("queued", "running")
_COMPLETE = ("complete", "published")
_WAIT_S, _POLL_S = 60.0, 0.05

SQL = {
    "delays_by_hour": """
        select origin, date_trunc('hour', scheduled) as hour, count(*) as flights,
               avg(dep_delay) as mean_delay
        from told where not late group by all""",
    "late_flights": "select origin, scheduled, dep_delay from told where late",
}
_TOLD = f"""
    create table told as
    with seen as (
        select *, max(scheduled) over (partition by origin order by departed, file_row_number
                                       rows between unbounded preceding and 1 preceding)
                  - interval '{BOUND}' as watermark
        from read_parquet($1, file_row_number = true))
    select *, coalesce(date_trunc('hour', scheduled) + interval '{WINDOW}' <= watermark, false)
              as late
    from seen"""
"""Row by row what an oracle says: late is what the rows before it in its split had left behind."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of it."""

    seconds: float
    checkpoint: int
    """The one that was complete when the agent was killed."""
    recovered_s: float
    """From the kill until the next checkpoint was complete."""
    answers: dict[str, pa.Table]


def prepare(session: Session, csv: Path, to: Path) -> int:
    """Write the flown flights, in the order of their departure, as Parquet; returns how many."""
    scheduled = col("time_hour").dt.add(col("minute"), "minute")
    flights = (
        session.read_csv(csv, null_values=questions.NULL)
        .filter(col("dep_delay").is_not_null())
        .select("origin", scheduled.alias("scheduled"), "dep_delay")
        .with_columns(departed=col("scheduled").dt.add(col("dep_delay"), "minute"))
        .sort("departed", "origin", "scheduled", "dep_delay")
    )
    return flights.write_parquet(str(to), mode="overwrite").rows


def ask_duckdb(prepared: Path) -> dict[str, pa.Table]:
    """What the stream must give, by name."""
    import duckdb

    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        database.execute(_TOLD, [str(prepared)])
        return {name: database.sql(SQL[name]).to_arrow_table() for name in NAMES}


def from_file(session: Session, prepared: Path) -> DataFrame:
    """The flights as a stream of `SECONDS`, straight from the file; see `topic` for another way."""
    return fabric.streams.replay(
        session.read_parquet(prepared), "departed", split_by="origin", speed=YEAR_S / SECONDS
    )


def ask(stream: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The windows, and the rows that came too late for theirs."""
    windows = (
        stream.with_watermark("scheduled", BOUND)
        .group_by("origin")
        .window(WINDOW, late="side")
        .agg(flights=count(), mean_delay=mean("dep_delay"))
        .named("by_hour")
    )
    late = windows.side_output("late").select("origin", "scheduled", "dep_delay")
    hours = windows.select("origin", col("window_start").alias("hour"), "flights", "mean_delay")
    return hours, late


def replay(session: Session, stream: DataFrame, out: Path, lose: Callable[[], None]) -> Replayed:
    """Run `stream` to its end; `lose` is called once a checkpoint is complete."""
    hours, late = ask(stream)
    folders = {name: out / f"{name}.stream" for name in NAMES}
    begin = time.perf_counter()
    session.checkpoints(interval_s=CHECKPOINT_S)
    job = hours.write_stream(
        folders["delays_by_hour"], also={folders["late_flights"]: late}, parallelism=3
    )
    checkpoint = _next_complete(job, 0)
    lose()
    lost = time.perf_counter()
    _next_complete(job, checkpoint)
    recovered_s = time.perf_counter() - lost
    job.wait()
    answers = {name: pq.read_table(folder) for name, folder in folders.items()}
    return Replayed(
        checkpoint=checkpoint,
        recovered_s=recovered_s,
        seconds=time.perf_counter() - begin,
        answers=answers,
    )


def _next_complete(job: Job, after: int) -> int:
    """The newest complete checkpoint, once there is one above `after`, or the stream has ended."""
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end:
        complete = [one.checkpoint for one in job.checkpoints() if one.state in _COMPLETE]
        if max(complete, default=0) > after or job.state not in _RUNS:
            return max(complete, default=0)
        time.sleep(_POLL_S)
    raise ExternalError(f"the stream made no checkpoint in {_WAIT_S:.0f} s; see its agents' log")
