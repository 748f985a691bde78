"""Rows that came too late and are in no result: whoever waits for it is told how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

import fabric
from fabric import DataFrame, streams
from fabric.clients.session.session import Session

START, MINUTE = datetime(2026, 1, 1), timedelta(minutes=1)
TIMES = [START + n * MINUTE for n in (0, 1, 10, 0, 1, 20, 11)]  # three of them come too late
TOLD = "late rows were dropped"


@pytest.fixture
def session() -> Iterator[Session]:
    with fabric.connect() as made:
        yield made


def counts(session: Session, **options: str) -> DataFrame:
    rows = session.read_arrow({"n": list(range(len(TIMES))), "ts": TIMES, "k": [1] * len(TIMES)})
    timed = streams.replay(rows, "n").with_watermark("ts", "0 seconds")
    return timed.group_by("k").window("1 minute", **options).count()


@pytest.mark.parametrize(
    "run",
    [
        lambda df: df.collect(), lambda df: list(df.iter_batches()), lambda df: df.to_pandas(),
        lambda df: df.submit().collect(), lambda df: df.write_stream(streams.to_blackhole()).wait(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"late": "side"}])
def test_late_rows_that_nobody_reads_are_told_once(
    session: Session,
    capsys: pytest.CaptureFixture[str],
    run: Callable[[DataFrame], object],
    options: dict[str, str],
) -> None:
    run(counts(session, **options))
    told = [line for line in capsys.readouterr().err.splitlines() if TOLD in line]
    assert len(told) == 1
    assert "rows=3" in told[0]
    assert "node=stream_aggregate_1" in told[0]
    assert '.side_output("late")' in told[0]


def test_nothing_is_said_of_late_rows_that_are_read_or_that_there_are_none_of(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    made = counts(session, late="side")
    assert made.side_output("late").collect().num_rows == 3
    also = {streams.to_blackhole(): made.side_output("late")}
    made.write_stream(streams.to_dataset("d"), also=also).wait()
    counts(session, lateness="1 hour").collect()
    assert TOLD not in capsys.readouterr().err
