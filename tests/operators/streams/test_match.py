"""Matches among the rows of a stream: those of brute force, whatever order rows come in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric import col, count
from fabric.clients.dataframe.verbs import match as verb
from fabric.errors import DataError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.operators.snapshots import GroupTimes
from fabric.operators.streams.match import MatchOperator
from fabric.patterns import classifier, first, last, prev
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Match, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.stream import TIMEOUT, WATERMARK
from fabric.testing.operators import Kept, Rows, Until, check_operator
from tests.support.row_patterns import (
    Condition,
    Pattern,
    View,
    defines,
    matches,
    patterns,
    text_of,
)
from tests.support.sampled import SOAK

SCHEMA = pa.schema([
    ("k", pa.int64()), ("t", pa.timestamp("us")), ("v", pa.int64()), ("id", pa.int64())
])  # fmt: skip
VALUE = st.one_of(st.none(), *[st.integers(0, 3)] * 6)
OPTIONS = st.tuples(
    st.sampled_from([2, 4, 40]), st.sampled_from(["skip_past", "next_row"]),
    st.sampled_from(["one", "all"]), st.integers(0, 3), st.booleans(),
)  # fmt: skip
MEASURES: dict[str, tuple[Any, Any]] = {
    "first": (first("id"), lambda view: next(iter(view.values(None, "id")), None)),
    "end": (last("t"), None),
    "label": (classifier(), lambda view: view.labels[-1]),
    "n_b": (count("B"), lambda view: len(view.values("B"))),
    "before": (prev("A.v", 2), lambda view: view.before("A", 2)),
}  # fmt: skip


def node_of(pattern: str, define: dict[str, Any], schema: pa.Schema = SCHEMA, **more: Any) -> Match:
    measures = more.pop("measures", {name: expr for name, (expr, _) in MEASURES.items()})
    return Match(
        StageInput(0, schema), pattern, more.pop("keys", (Column("k"),)),
        (SortKey(Column("t")), SortKey(Column("id"))), verb._named("define", define),
        verb._named("measures", measures), time="t", **more,
    )  # fmt: skip


def operator_of(node: Match) -> MatchOperator:
    return MatchOperator(node, schema_of(node.input), schema_of(node))


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def ids(batches: list[pa.RecordBatch], *names: str) -> list[Any]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [tuple(row[name] for name in names) for row in rows]


@st.composite
def streams(draw: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Rows in order, and steps in which they come in another one, never behind a watermark."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), VALUE), max_size=12))
    rows, time = [], 0
    for number, (key, step, value) in enumerate(drawn):
        time += step
        rows.append({"k": key, "t": time, "v": value, "id": number})
    shuffled = sorted(rows, key=lambda row: row["t"] + draw(st.integers(0, 6)))
    steps: list[Any] = []
    for n, row in enumerate(shuffled):
        steps.append(Rows(batch_of([row])))
        if draw(st.booleans()):
            steps.append(Until(min((row["t"] for row in shuffled[n + 1 :]), default=time + 2)))
    return rows, steps


def expected(
    pattern: Pattern, define: dict[str, Condition], rows: list[dict[str, Any]], mode: str,
    measures: dict[str, tuple[Any, Any]], **more: Any,
) -> Counter[str]:  # fmt: skip
    holds = {name: condition[1] for name, condition in define.items()}
    out: Counter[str] = Counter()
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        for begin, labels in matches(pattern, holds, mine, **more):
            for place in range(len(labels)) if mode == "all" else [len(labels) - 1]:
                if mode == "all" and labels[place][1]:
                    continue
                view = View(mine, begin, [name for name, _ in labels[: place + 1]])
                made = {name: of(view) for name, (_, of) in measures.items() if of is not None}
                row = mine[begin + place] if mode == "all" else {"k": key}
                out[str(sorted({**row, **made, "end": mine[begin + place]["t"]}.items()))] += 1
    return out


def made(batches: list[pa.RecordBatch]) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in batches:
        columns = [
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
            for column in batch.columns
        ]
        plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        found.update(str(sorted(row.items())) for row in plain.to_pylist())
    return found


@settings(max_examples=600 if SOAK else 40, deadline=None)
@given(pattern=patterns(anchors=False, empty=False), define=defines(), drawn=streams(),
       options=OPTIONS)  # fmt: skip
def test_the_same_as_brute_force_after_an_abort_and_with_other_numbers_of_tasks(
    pattern: Pattern, define: dict[str, Condition], drawn: Any, options: Any
) -> None:
    within, after, mode, behind, reads_before = options
    rows, steps = drawn
    measures = {
        name: measure for name, measure in MEASURES.items() if reads_before or name != "before"
    }  # else no row stays behind a match
    text = text_of(pattern) + " (A B C){0}"
    conditions = {name: condition[0] for name, condition in define.items()}
    node = node_of(
        text,
        conditions,
        within_us=within,
        after=after,
        per_match=mode,
        timeout="side",
        late="side",
        measures={name: expr for name, (expr, _) in measures.items()},
    )
    out = check_operator(lambda: operator_of(node), steps, keys=["k"], behind=behind)
    assert made(out.rows) == expected(
        pattern, define, rows, mode, measures, after=after, within=within
    )
    assert "late" not in out.sides


def at(key: int, *times: int, v: int = 0) -> pa.RecordBatch:
    return batch_of([{"k": key, "t": t, "v": v, "id": t} for t in times])


def test_a_row_waits_until_the_watermark_has_passed_it() -> None:
    operator = operator_of(node_of("A B", {}, within_us=10))
    operator.on_batch(0, at(1, 5))
    operator.on_batch(0, at(1, 3))
    assert operator.on_watermark(5) == []  # another row of time 5 may come
    operator.on_batch(0, at(1, 5, v=-1))
    found = operator.on_watermark(6)
    assert ids(found, "first", "end", "label")[0][0] == 3
    assert operator.on_barrier(1).write(Kept()) == 3  # the last row, and two for prev


def test_matches_that_are_not_completed_in_time_go_aside() -> None:
    node = node_of("A B+ C", {"B": col("v") == 0, "C": col("v") == 2}, within_us=4, timeout="side")
    operator = operator_of(node)
    operator.on_batch(0, at(1, 10, v=1))
    operator.on_batch(0, at(1, 11, 12))
    operator.on_batch(0, at(2, 10, 11))
    operator.on_batch(0, at(2, 12, v=2))
    found = operator.on_watermark(14)
    assert ids(found, "k", "first", "n_b") == [(2, 10, 1)]
    assert operator.take_side() == {}  # a row of time 14 may still come
    assert operator.on_watermark(15) == []
    aside = operator.take_side()[TIMEOUT]
    assert ids(aside, "k", "first", "label", "n_b") == [(1, 10, "B", 2)]
    assert aside[0].schema.equals(schema_of(node))
    operator.on_watermark(END_OF_TIME)
    assert ids(operator.take_side()[TIMEOUT], "first", "n_b") == [(11, 1), (12, 0)]
    assert operator.counts() == {"late_rows": 0, "timed_out_matches": 3}


def test_timed_out_matches_are_counted_where_nobody_reads_them() -> None:
    operator = operator_of(node_of("A B", {"B": col("v") > 0}, within_us=4))
    operator.on_batch(0, at(1, 10))
    operator.on_watermark(END_OF_TIME)
    assert operator.take_side() == {}
    assert operator.counts()["timed_out_matches"] == 1


def test_without_a_time_the_end_of_the_stream_decides() -> None:
    operator = operator_of(node_of("A B?", {"B": col("v") > 5}))
    operator.on_batch(0, at(1, 10))
    assert operator.on_watermark(1_000) == []
    assert ids(operator.on_watermark(END_OF_TIME), "first", "label") == [(10, "A")]


@pytest.mark.parametrize(("within", "leaves"), [(0, 100), (30, 70)])
def test_the_watermark_that_leaves_is_as_far_back_as_matches_may_be(
    within: int, leaves: int
) -> None:
    operator = operator_of(node_of("A B", {}, within_us=within))
    assert operator.watermark(100) == leaves
    assert operator.watermark(END_OF_TIME) == END_OF_TIME


def test_late_rows_are_counted_and_go_aside() -> None:
    schema = SCHEMA.append(pa.field(WATERMARK, pa.int64()))
    node = node_of("A B", {}, schema, within_us=10, late="side")

    def rows(key: int, time: int, known: int) -> Rows:
        batch = at(key, time).append_column(WATERMARK, pa.array([known], pa.int64()))
        return Rows(batch)

    made = []

    def make() -> MatchOperator:
        made.append(operator_of(node))
        return made[-1]

    steps = [rows(1, 10, 10), rows(1, 9, 10), rows(2, 11, 0), Until(11), rows(1, 10, 0)]
    out = check_operator(make, [*steps, rows(1, 11, 0)], keys=["k"])
    assert ids(out.rows, "k", "first") == [(1, 10)]
    assert ids(out.sides["late"], "k", "id") == [(1, 9), (1, 10)]
    assert all(batch.schema.equals(SCHEMA) for batch in out.sides["late"])
    assert made[0].counts()["late_rows"] == 2


def test_rows_of_equal_times_are_in_the_order_of_the_columns_that_are_read() -> None:
    node = replace(node_of("A B C", {}, within_us=10), order=())
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        operator = operator_of(node)
        rows = [{"k": 1, "t": 5, "v": v, "id": 9 - v} for v in order]
        for row in rows:
            operator.on_batch(0, batch_of([row]))
        found.append(ids(operator.on_watermark(END_OF_TIME), "first", "label"))
    assert found == [[(9, "C")], [(9, "C")]]


def test_keys_without_an_open_match_are_forgotten() -> None:
    measures = {"first": first("id")}
    operator = operator_of(
        node_of("A B", {"A": col("v") > 0, "B": col("v") > 0}, within_us=4, measures=measures)
    )
    for key in range(50):
        operator.on_batch(0, at(key, 10, v=key % 2))
    operator.on_watermark(11)
    assert operator.on_barrier(1).write(Kept()) == 25
    operator.on_watermark(20)
    assert operator.on_barrier(2).write(Kept()) == 0
    assert operator._partitions == {}
    assert operator._table is not None
    assert operator._table.n_groups == 0
    operator.on_batch(0, at(7, 21, 22, v=1))
    assert ids(operator.on_watermark(30), "k", "first") == [(7, 21)]


def test_a_key_that_comes_back_is_not_taken_for_its_old_rows() -> None:
    measures = {"first": first("id")}
    operator = operator_of(node_of("A B", {"A": col("v") > 0}, within_us=10, measures=measures))
    operator.on_batch(0, at(1, 10, v=1))
    operator.on_watermark(11)  # its deadline is at 20
    operator.on_batch(0, at(1, 11))
    assert ids(operator.on_watermark(12), "first") == [(10,)]
    assert operator._partitions == {}
    operator.on_batch(0, at(1, 15, v=1))
    operator.on_watermark(16)
    operator.on_watermark(22)  # past the old deadline, not past the new one
    operator.on_batch(0, at(1, 24))
    assert ids(operator.on_watermark(25), "first") == [(15,)]


def test_the_rows_before_a_match_are_kept_as_far_as_they_are_read() -> None:
    node = node_of("A", {"A": col("v") > prev("v", 2)}, measures={"id": last("id")})
    operator = operator_of(node)
    found = []
    for time, value in enumerate([5, 4, 6, 3, 7, 2], 1):
        operator.on_batch(0, at(1, time, v=value))
        found += ids(operator.on_watermark(time + 1), "id")
        assert operator.on_barrier(time).write(Kept()) == min(time, 2)
    assert found == [(3,), (5,)]


def test_no_keys_are_one_partition() -> None:
    node = node_of("A B", {}, keys=(), measures={"first": first("id")}, within_us=10)
    kept = Kept()
    operator = operator_of(node)
    operator.on_batch(0, at(1, 5))
    operator.on_batch(0, at(2, 6, 7))
    assert ids(operator.on_watermark(8), "first") == [(5,)]
    operator.on_barrier(1).write(kept)
    other = operator_of(node)
    other.restore([kept], range(1 << 15))
    other.on_batch(0, at(3, 8))
    assert ids(other.on_watermark(9), "first") == [(7,)]


def test_key_groups_go_on_from_their_own_watermark() -> None:
    """In an unaligned checkpoint tasks have not come equally far."""
    node = node_of("A B", {}, within_us=10, measures={"first": first("id")})
    ahead, back = Kept(key_groups=range(1 << 14)), Kept(key_groups=range(1 << 14, 1 << 15))
    operator_times = {0: 20, 1: 10}
    for kept, time in ((ahead, operator_times[0]), (back, operator_times[1])):
        operator = operator_of(node)
        operator.on_watermark(time)
        operator.on_barrier(1).write(kept)
    merged = operator_of(node)
    merged.restore([ahead, back], range(1 << 15))
    assert merged._times == GroupTimes(10, ((1 << 14, 20), (1 << 15, 10)))
    for key in range(40):
        merged.on_batch(0, at(key, 12, 13))
    merged.on_watermark(30)
    late = merged.counts()["late_rows"]
    assert 0 < late < 80
    assert late % 2 == 0
    assert BEGINNING < 10


def test_conditions_that_change_their_answers_are_an_error() -> None:
    node = node_of("A B", {"A": col("v") > 0, "B": col("v") > 0}, within_us=10)
    operator = operator_of(node)
    operator.on_batch(0, at(1, 5, v=1))
    operator.on_watermark(6)
    kept = Kept()
    operator.on_barrier(1).write(kept)
    other = operator_of(node_of("A (B){0}", {"A": col("v") > 0}, within_us=10))
    with pytest.raises(DataError, match="another answer for the same rows"):
        other.restore([kept], range(1 << 15))


def test_a_batch_of_many_keys_and_matches() -> None:
    n = 3_000
    times = np.arange(n)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(times % 100), pa.array(times).view(pa.timestamp("us")), pa.array(times % 7),
         pa.array(times)], schema=SCHEMA,
    )  # fmt: skip
    operator = operator_of(node_of("A B", {}, within_us=200, measures={"first": first("id")}))
    operator.on_batch(0, rows)
    found = operator.on_watermark(END_OF_TIME)
    assert sum(batch.num_rows for batch in found) == n // 2
