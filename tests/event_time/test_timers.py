"""Timers over a real group table: by key, in order, and through snapshots of other widths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.kernels.group_table import GroupTable
from fabric.event_time import END_OF_TIME
from fabric.event_time.timers import DOMAINS, Domain, Timers

KEYS = pa.schema([("k", pa.string()), ("n", pa.int64())])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None, "long enough for the heap"]),
        st.integers(0, 50),
        st.integers(-5, 5),
        st.sampled_from(DOMAINS),
    ),
    max_size=40,
)
Row = tuple[str | None, int, int, Domain]


def ids_of(table: GroupTable, rows: list[Row]) -> np.ndarray:
    return table.upsert(
        [
            pa.array([row[0] for row in rows], pa.string()),
            pa.array([row[1] for row in rows], pa.int64()),
        ]
    )


def add(timers: Timers, table: GroupTable, rows: list[Row]) -> None:
    for domain in DOMAINS:
        some = [row for row in rows if row[3] == domain]
        times = np.array([row[2] for row in some], np.int64)
        timers.set(domain, ids_of(table, some), times)


def fired(timers: Timers, table: GroupTable, domain: Domain) -> set[Row]:
    ids, times = timers.due(domain, END_OF_TIME)
    keys = table.keys(ids.astype(np.int32)).to_pylist()
    found = [(k["k"], k["n"], t, domain) for k, t in zip(keys, times.tolist(), strict=True)]
    assert len(found) == len(set(found))
    assert times.tolist() == sorted(times.tolist())
    return set(found)


@settings(deadline=None)  # the first array of a process takes its time
@given(ROWS, st.integers(1, 3), st.integers(1, 3))
def test_every_timer_survives_two_rescalings_once(rows: list[Row], n: int, m: int) -> None:
    table, timers = GroupTable(KEYS), Timers()
    add(timers, table, rows)
    assert len(timers) == len(set(rows))
    exported = [timers.export(table)]
    for width in (n, m):
        tasks = []
        for task in range(width):
            groups = range(-(-task * 32768 // width), -(-(task + 1) * 32768 // width))
            table, timers = GroupTable(KEYS), Timers()
            for batch in exported:
                timers.restore(batch, groups, table)
            tasks.append((timers, table))
        exported = [timers.export(table) for timers, table in tasks]
    found = [fired(*task, domain) for task in tasks for domain in DOMAINS]
    assert sum(map(len, found)) == len(set(rows))
    assert set().union(*found) == set(rows)


def test_exports_lie_in_order_of_key_groups() -> None:
    table, timers = GroupTable(KEYS), Timers()
    add(timers, table, [("a", n, 1, "event") for n in range(100)])
    groups = timers.export(table).column("__key_group").to_pylist()
    assert groups == sorted(groups)


def test_cancelled_timers_do_not_fire_and_domains_are_apart() -> None:
    timers = Timers()
    ids, times = np.array([1, 2, 1], np.int32), np.array([5, 5, 9])
    assert timers.set("event", ids, times) == 3
    assert timers.set("processing", ids, times) == 3
    assert timers.cancel("event", ids[:1], times[:1]) == 1
    assert timers.cancel("event", ids[:1], times[:1]) == 0
    assert timers.in_use().tolist() == [1, 2]
    assert [a.tolist() for a in timers.due("event", 9)] == [[2, 1], [5, 9]]
    assert len(timers) == 3
    assert [a.tolist() for a in timers.due("processing", 5)] == [[1, 2], [5, 5]]
