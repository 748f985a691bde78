"""Event time whole, beside DuckDB: splits read by tasks, exchanged, and windowed by other tasks.

Whatever the batches and however rows and watermarks of different tasks interleave, the windows are
those that DuckDB computes of all rows with the same lateness; each row is on time or late, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.kernels.sessions import SessionTable
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.source import SourceWatermarks
from fabric.event_time.watermarks import Bounded, TaskWatermark
from fabric.event_time.windows import (
    Framed,
    assign,
    closed,
    expanded,
    spans,
    starts,
    step,
    waits_us,
)
from fabric.plan.event_windows import Cumulative, Session, Sliding, Tumbling
from tests.support.duckdb.event_time import sessions_sql, watermarks_sql, windows_sql

WINDOWS = [
    Tumbling(10), Tumbling(7, -3), Sliding(10, 5), Sliding(10, 4, 1), Cumulative(12, 4, 2),
    Session(6), Session(11),
]  # fmt: skip
Windowed = dict[tuple[int, int, int], list[int]]
"""Key, start and end of windows, and the rows in them."""


@dataclass
class Rows:
    """All rows of a run, in order of splits; a row's number is its place here."""

    split: list[int] = field(default_factory=list)
    time: list[int] = field(default_factory=list)

    def key(self, row: int) -> int:
        return row % 2

    def table(self) -> pa.Table:
        n = len(self.time)
        keys = [self.key(row) for row in range(n)]
        columns = {"split": self.split, "row": range(n), "time": self.time, "key": keys}
        return pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})


class WindowTask:
    """A task behind an exchange: a few lines of what operators do, over sets of row numbers."""

    def __init__(self, rows: Rows, window: Framed | Session, lateness: int, inputs: int) -> None:
        self.rows, self.window, self.lateness = rows, window, lateness
        self.task = TaskWatermark(range(inputs))
        self.reached = BEGINNING
        self.open: dict[tuple[int, ...], list[int]] = {}
        self.sessions = SessionTable(window.gap_us) if isinstance(window, Session) else None
        self.results: Windowed = {}
        self.late: list[int] = []

    def on_rows(self, numbers: list[int], carried: list[int]) -> None:
        times = np.array([self.rows.time[row] for row in numbers])
        watermarks = np.array(carried)
        if self.sessions is not None:
            self._on_session_rows(np.array(numbers), times, watermarks)
            return
        assert not isinstance(self.window, Session)
        found = spans(self.window, times, watermarks, self.reached, self.lateness)
        places, ends = expanded(found.first, found.last, step(self.window))
        for place, end in zip(places.tolist(), ends.tolist(), strict=True):
            row = numbers[place]
            self.open.setdefault((end, self.rows.key(row)), []).append(row)
        self.late += [numbers[i] for i in np.flatnonzero(found.first > found.last)]

    def _on_session_rows(
        self, numbers: np.ndarray, times: np.ndarray, watermarks: np.ndarray
    ) -> None:
        assert self.sessions is not None
        assigned = assign(self.window, times)
        known = np.maximum(watermarks, self.reached)
        is_late = assigned.ends <= closed(known, self.lateness)
        self.late += numbers[is_late].tolist()
        numbers, times = numbers[~is_late], times[~is_late]
        groups = np.array([self.rows.key(row) for row in numbers], np.int64)
        slots, merged, into = (a.tolist() for a in self.sessions.assign(groups, times))
        for row, slot in zip(numbers.tolist(), slots, strict=True):
            self.open.setdefault((slot,), []).append(row)
        for left, taker in zip(merged, into, strict=True):
            self.open.setdefault((taker,), []).extend(self.open.pop((left,)))

    def on_watermark(self, channel: int, time: int) -> None:
        self.task.update(channel, time)
        if self.task.current == IDLE:
            return
        self.reached = max(self.reached, self.task.current)
        limit = int(closed(np.int64(self.reached), waits_us(self.window, self.lateness)))
        if self.sessions is not None:
            for slot, key, start, end in zip(*self.sessions.close(limit), strict=True):
                self._put_out((int(key), int(start), int(end)), self.open.pop((int(slot),)))
            return
        for end, key in [known for known in self.open if known[0] <= limit]:
            start = int(starts(self.window, np.array([end]))[0])
            self._put_out((key, start, end), self.open.pop((end, key)))

    def _put_out(self, place: tuple[int, int, int], rows: list[int]) -> None:
        assert place not in self.results, f"{place} is put out twice"
        self.results[place] = sorted(rows)


def read(
    data: st.DataObject, rows: Rows, tasks: list[list[int]], bound: int, future: int | None
) -> Iterator[tuple[int, list[int], list[int], int]]:
    """Batches of tasks in some order: task, rows, what they carry, the watermark behind them."""
    sources = [SourceWatermarks(map(str, splits), Bounded(bound), future_us=future)
               for splits in tasks]  # fmt: skip
    left = {split: deque(row for row, s in enumerate(rows.split) if s == split)
            for splits in tasks for split in splits}  # fmt: skip
    for task, source in enumerate(sources):
        yield task, [], [], source.watermark
    while left:
        split = data.draw(st.sampled_from(sorted(left)))
        task = next(i for i, splits in enumerate(tasks) if split in splits)
        queue = left[split]
        batch = [queue.popleft() for _ in range(min(len(queue), data.draw(st.integers(1, 5))))]
        times = np.array([rows.time[row] for row in batch], np.int64)
        found = sources[task].row_watermarks(str(split), times, None, now_us=END_OF_TIME)
        if not queue:
            del left[split]
            sources[task].on_end(str(split))
        yield task, batch, found.watermarks.tolist(), sources[task].watermark
    for task, splits in enumerate(tasks):
        if not splits:  # idle until now: its reader is told that no split will come
            yield task, [], [], END_OF_TIME


def stream(
    data: st.DataObject, rows: Rows, tasks: list[list[int]], *, bound: int, future: int | None,
    window: Framed | Session, lateness: int, n_out: int,
) -> list[WindowTask]:  # fmt: skip
    """Run it: each channel keeps its order, channels overtake each other as they like."""
    out = [WindowTask(rows, window, lateness, len(tasks)) for _ in range(n_out)]
    channels: dict[tuple[int, int], deque[tuple[list[int], list[int], int]]] = {
        (task, i): deque() for task in range(len(tasks)) for i in range(n_out)
    }

    def deliver(place: tuple[int, int]) -> None:
        numbers, carried, watermark = channels[place].popleft()
        if numbers:
            out[place[1]].on_rows(numbers, carried)
        out[place[1]].on_watermark(place[0], watermark)

    for task, numbers, carried, watermark in read(data, rows, tasks, bound, future):
        for i in range(n_out):
            mine = [p for p, row in enumerate(numbers) if rows.key(row) % n_out == i]
            picked = [numbers[p] for p in mine], [carried[p] for p in mine], watermark
            channels[task, i].append(picked)
        for place in data.draw(st.lists(st.sampled_from(sorted(channels)), max_size=3)):
            if channels[place]:
                deliver(place)
    while waiting := sorted(place for place, queue in channels.items() if queue):
        deliver(data.draw(st.sampled_from(waiting)))
    return out


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def by_duckdb(
    rows: Rows, window: Framed | Session, bound: int, future: int | None, lateness: int
) -> tuple[Windowed, list[int]]:
    """The windows of all rows, and the rows that are late for all of theirs."""
    given_rows = rows.table()
    sql = watermarks_sql(
        "SELECT * FROM given_rows", split="split", order="row", time_us="time", bound_us=bound,
        future_us=future,
    )  # fmt: skip
    if isinstance(window, Session):
        sql = sessions_sql(sql, window.gap_us, "key", lateness)
    else:
        sql = windows_sql(sql, window, lateness)
    connection = database()
    connection.register("given_rows", given_rows)
    found = connection.sql(f"SELECT key, window_start, window_end, row, late FROM ({sql})")
    windows: Windowed = {}
    is_late: dict[int, bool] = {}
    for key, start, end, row, late_ in sorted(found.fetchall()):
        is_late[row] = is_late.get(row, True) and late_
        if not late_:
            windows.setdefault((key, start, end), []).append(row)
    return windows, sorted(row for row, late_ in is_late.items() if late_)


@settings(deadline=None, max_examples=40)
@given(
    splits=st.lists(st.lists(st.integers(-15, 30), max_size=15), min_size=1, max_size=4),
    n_in=st.integers(1, 5), n_out=st.integers(1, 2), window=st.sampled_from(WINDOWS),
    bound=st.integers(0, 15), future=st.sampled_from([None, None, 20]),
    lateness=st.sampled_from([0, 0, 5]), data=st.data(),
)  # fmt: skip
def test_any_interleaving_gives_the_windows_of_duckdb(
    *, splits: list[list[int]], n_in: int, n_out: int, window: Framed | Session, bound: int,
    future: int | None, lateness: int, data: st.DataObject,
) -> None:  # fmt: skip
    rows = Rows()
    for split, times in enumerate(splits):
        rows.split += [split] * len(times)
        rows.time += times
    present = sorted(set(rows.split))
    tasks = [[split for split in present if split % n_in == task] for task in range(n_in)]
    out = stream(
        data, rows, tasks, bound=bound, future=future, window=window, lateness=lateness,
        n_out=n_out,
    )  # fmt: skip
    windows, late_of_all = by_duckdb(rows, window, bound, future, lateness)
    results: Windowed = {}
    for task in out:
        assert task.reached == END_OF_TIME
        assert not task.open
        assert not results.keys() & task.results.keys()
        results |= task.results
    assert sorted(row for task in out for row in task.late) == late_of_all
    assert results == windows
    on_time = {row for found in results.values() for row in found}
    assert on_time.isdisjoint(late_of_all)
    assert len(on_time) + len(late_of_all) == len(rows.time)


def test_golden_lateness() -> None:
    """By hand: bound 5, windows of 10. Row 3 (time 8) carries 25 - 5 = 20: its window is over."""
    rows = Rows([0, 0, 0, 0], [3, 12, 25, 8])
    windows, late_of_all = by_duckdb(rows, Tumbling(10), 5, None, 0)
    assert late_of_all == [3]
    assert {place[1:]: found for place, found in windows.items()} == {
        (0, 10): [0], (10, 20): [1], (20, 30): [2]
    }  # fmt: skip
    assert by_duckdb(rows, Tumbling(10), 5, None, 11)[1] == []
    assert by_duckdb(rows, Tumbling(10), 5, 7, 0)[1] == [3]  # 12 may be pushed to 19: carries 14
