"""Matches of row patterns, against brute force over the same rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric import col, count
from fabric.clients.dataframe.verbs import match as verb
from fabric.errors import DataError, PlanError
from fabric.operators.match import search
from fabric.operators.match.table import matched
from fabric.patterns import classifier, final, first, last, match_number, prev
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Match, StageInput
from fabric.plan.schema import schema_of
from tests.support.row_patterns import (
    Condition,
    NoWay,
    Pattern,
    View,
    defines,
    matches,
    patterns,
    text_of,
)
from tests.support.sampled import SOAK

SCHEMA = pa.schema([
    ("id", pa.int64()), ("k", pa.int64()), ("t", pa.timestamp("us")), ("v", pa.int64())
])  # fmt: skip
VALUE = st.one_of(st.none(), *[st.integers(0, 3)] * 6)
ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), VALUE), max_size=11)
AFTER = st.sampled_from(["skip_past"] * 4 + ["next_row"] * 2 + ["to_last B", "to_first C"])
OPTIONS = st.tuples(AFTER, st.sampled_from([None, None, 2, 4]), st.sampled_from(["one", "all"]))
EXAMPLES = 2_000 if SOAK else 80


def rows_of(drawn: list[tuple[int, int, int | None]]) -> list[dict[str, Any]]:
    """Rows of (key, time since the row before, value)."""
    found, time = [], 0
    for number, (key, step, value) in enumerate(drawn):
        time += step
        found.append({"id": number, "k": key, "t": time, "v": value})
    return found


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def node_of(pattern: str, define: dict[str, Any], measures: dict[str, Any], **more: Any) -> Match:
    order = (SortKey(Column("t")), SortKey(Column("id")))
    return Match(
        StageInput(0, SCHEMA), pattern, (Column("k"),), order, verb._named("define", define),
        verb._named("measures", measures), time="t", **more,
    )  # fmt: skip


def put_out(node: Match, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    batches = matched(node, [batch_of(rows)], SCHEMA, schema_of(node))
    assert all(batch.schema.equals(schema_of(node)) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


MEASURES: dict[str, tuple[Any, Any]] = {
    "n": (count(), lambda view: len(view.values())),
    "n_a": (count("A"), lambda view: len(view.values("A"))),
    "some": (col("B.v").count(), lambda view: sum(v is not None for v in view.values("B"))),
    "first": (first("id"), lambda view: next(iter(view.values(None, "id")), None)),
    "second_b": (first("B.v", 1), lambda view: view.first("B", 1)),
    "last_a": (col("A.v"), lambda view: view.last("A")),
    "before": (prev("C.v", 2), lambda view: view.before("C", 2)),
    "least": (col("v").min(), lambda view: min(known(view.values()), default=None)),
    "u": (last("U.v"), lambda view: view.last("BC")),
    "label": (classifier(), lambda view: view.labels[-1] if view.labels else None),
    "of_u": (classifier("U"),
             lambda view: next((x for x in reversed(view.labels) if x in "BC"), None)),
}  # fmt: skip


def known(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def expected(
    pattern: Pattern, define: dict[str, Condition], rows: list[dict[str, Any]], mode: str,
    **more: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows that the oracle puts out."""
    holds = {name: condition[1] for name, condition in define.items()}
    out = []
    for key in sorted({row["k"] for row in rows}, key=[row["k"] for row in rows].index):
        mine = [row for row in rows if row["k"] == key]
        for number, (begin, labels) in enumerate(matches(pattern, holds, mine, **more), 1):
            names = [name for name, _ in labels]
            places = range(len(labels)) if mode == "all" else [len(labels) - 1]
            if not labels:
                places = [-1]
            for place in places:
                if mode == "all" and labels and labels[place][1]:
                    continue
                view, whole = (View(mine, begin, names[:n]) for n in (place + 1, len(names)))
                made = {name: of(view) for name, (_, of) in MEASURES.items()}
                row = mine[begin + max(place, 0)]
                copied = row if mode == "all" else {"k": key}
                out.append({**copied, **made, "number": number, "in_all": len(whole.values())})
    return out


def multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str({**row, "t": None}) for row in rows)


@settings(max_examples=EXAMPLES, deadline=None)
@given(pattern=patterns(), define=defines(), drawn=ROWS, options=OPTIONS)
def test_matches_are_those_of_brute_force(
    pattern: Pattern, define: dict[str, Condition], drawn: list[Any], options: Any
) -> None:
    after, within, mode = options
    rows = rows_of(drawn)
    text = text_of(pattern) + " (A B C){0}"  # so that all three are variables
    node = node_of(
        text, {name: condition[0] for name, condition in define.items()},
        {**{name: expr for name, (expr, _) in MEASURES.items()}, "number": match_number(),
         "in_all": final(count())},
        after=after, within_us=within or 0, per_match=mode, subsets=(("U", "B C"),),
    )  # fmt: skip
    try:
        wanted = expected(pattern, define, rows, mode, after=after, within=within)
    except NoWay:
        with pytest.raises((DataError, PlanError), match=r"can't go on|can match for ever"):
            put_out(node, rows)
        return
    if after == "to_first C" and node.automaton.begins_with() == {"C"}:
        with pytest.raises(PlanError, match="can match for ever"):
            put_out(node, rows)
        return
    assert multiset(put_out(node, rows)) == multiset(wanted)


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(pattern=patterns(), define=defines(), drawn=ROWS)
def test_every_row_is_in_a_match_or_unmatched(
    pattern: Pattern, define: dict[str, Condition], drawn: list[Any]
) -> None:
    text = text_of(pattern)
    conditions = {name: condition[0] for name, condition in define.items() if name in text}
    if "{-" in text or any(name not in text for name in "ABC"):
        return
    rows = rows_of(drawn)
    node = node_of(text, conditions, {"number": match_number()}, per_match="all_with_unmatched")
    found = put_out(node, rows)
    assert sorted(row["id"] for row in found) == [row["id"] for row in rows]
    node = node_of(text, conditions, {"number": match_number()}, per_match="all_omit_empty")
    matched_ids = {row["id"] for row in put_out(node, rows)}
    empty = Counter(row["id"] for row in found if row["number"] is None)
    assert not matched_ids & set(empty)


def test_remembered_steps_are_forgotten_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = rows_of([(0, 1, n % 4) for n in range(40)])
    define = {"A": col("v") > 0, "B": col("v") < 3}
    node = node_of("(A | B)+? C", define, {"n": count()})
    before = put_out(node, rows)
    monkeypatch.setattr(search, "_STEPS_MAX", 1)
    assert put_out(node, rows) == before
    assert len(before) > 3


TYPES = [
    pa.bool_(), pa.int8(), pa.float32(), pa.decimal128(5, 2), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.date32(), pa.duration("us"), pa.time64("us"), pa.null(),
    pa.timestamp("ns", "UTC"), pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.int8()),
    pa.struct([("a", pa.int8())]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_columns_of_any_type_are_read_and_copied(dtype: pa.DataType) -> None:
    schema = pa.schema([("o", pa.int8()), ("x", dtype)])
    rows = pa.RecordBatch.from_arrays([pa.array([2, 1, 1]), pa.nulls(3, dtype)], schema=schema)
    for mode in ("one", "all"):
        node = Match(
            StageInput(0, schema), "A+", (), (SortKey(Column("o")),), (),
            verb._named("measures", {"y": last("x"), "z": prev("x"), "n": col("x").count()}),
            per_match=mode,  # type: ignore[arg-type]
        )  # fmt: skip
        (found,) = matched(node, [rows], schema, schema_of(node))
        assert found.schema.equals(schema_of(node))
        assert found.num_rows == (1 if mode == "one" else 3)


def test_ways_that_conditions_tell_apart_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "THREADS_MAX", 100)
    rows = rows_of([(0, 1, 1)] * 30)
    alike = node_of("(A | B)* C", {"C": col("v") > last("A.v")}, {"n": count()})
    assert put_out(alike, rows) == []  # one thread for each last row of A
    many = node_of("(A | B)* C", {"C": col("A.v").sum() < 0}, {"n": count()})
    with pytest.raises(DataError, match="more than 100 ways to match"):
        put_out(many, rows)
