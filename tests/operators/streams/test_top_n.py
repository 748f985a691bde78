"""Top-N of each key in all ways of the harness, against DuckDB's rank and row_number."""

from itertools import product

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.event_time import BEGINNING
from fabric.operators.streams import rank as rank_module
from fabric.operators.streams.top_n import top_n_operator
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import StageInput, TopN
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND, WATERMARK
from fabric.testing.operators import Rows, Until, check_operator, run_straight
from tests.support.changes import settled
from tests.support.little_memory import ROOMS, below
from tests.support.sampled import SOAK, sampled

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.float64()), ("s", pa.string()), ("i", pa.int64())])
ENDS = pa.schema([
    ("k", pa.string()), ("end", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("i", pa.int64()),
    (WATERMARK, pa.int64()),
])  # fmt: skip

VALUES = st.one_of(st.none(), st.sampled_from([-1.5, 0.0, -0.0, 2.0, 3.0, float("nan")]))
ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), VALUES, st.sampled_from(["x", "y", None]))
BATCHES = st.lists(st.lists(ROW, max_size=25), min_size=1, max_size=6)
SORT = st.tuples(st.booleans(), st.booleans())


def batches_of(rows):
    """Batches of rows, numbered in the order they come."""
    number = 0
    for part in rows:
        dicts = [{"k": k, "v": v, "s": s, "i": number + i} for i, (k, v, s) in enumerate(part)]
        number += len(part)
        yield pa.RecordBatch.from_pylist(dicts, SCHEMA)


def operator_of(node, schema):
    return lambda: top_n_operator(node, schema, schema_of(node))


def sql_of(column, key):
    order = "DESC" if key.descending else "ASC"
    return f"{column} {order} NULLS {'LAST' if key.nulls_last else 'FIRST'}"


def answer(rows, node, keys):
    """What DuckDB ranks."""
    order = ", ".join(sql_of(key.input.name, key) for key in node.by)
    function = "rank()" if node.ties else "row_number()"
    order = order if node.ties else f"{order}, i"
    over = f"{function} OVER (PARTITION BY {keys} ORDER BY {order})"
    columns = ", ".join(f'"{name}"' for name in rows.column_names)
    rank = f", {over} AS r" if node.rank else ""
    found = duckdb.sql(f"SELECT {columns}{rank} FROM rows QUALIFY {over} <= {node.n}")
    return settled([found.to_arrow_table().combine_chunks().to_batches()[0]] if len(found) else [])


@settings(deadline=None)
@given(
    rows=BATCHES, n=st.integers(1, 4), ties=st.booleans(), rank=st.booleans(), data=st.data(),
    room=st.sampled_from(ROOMS),
)  # fmt: skip
def test_changes_come_to_what_duckdb_ranks(rows, n, ties, rank, *, data, room):
    first, second = data.draw(SORT), data.draw(st.one_of(st.none(), SORT))
    by = [SortKey(Column("v"), *first)] + ([SortKey(Column("s"), *second)] if second else [])
    node = TopN(
        StageInput(0, SCHEMA), (Column("k"),), tuple(by), n, ties, "r" if rank else "", kinds=True
    )
    batches = list(batches_of(rows))
    with below(room) as context:
        out = run_straight(operator_of(node, SCHEMA), list(map(Rows, batches)), context=context)
    expected = answer(pa.Table.from_batches(batches), node, "k")
    assert settled(out.rows) == expected


CASES = [
    (room, *case)
    for n, room in enumerate(ROOMS)
    for case in sampled([*product([False, True], ["", "r"])], 2, salt=f"top {n}")
]
"""Some in each room."""


@pytest.mark.parametrize(("room", "ties", "rank"), CASES)
def test_an_abort_or_other_tasks_change_nothing(ties, rank, room, monkeypatch):
    monkeypatch.setattr(rank_module, "_BATCH_ROWS", 3)  # a group lies in two batches of a snapshot
    node = TopN(
        StageInput(0, SCHEMA), (Column("k"),), (SortKey(Column("v"), True, True),), 2, ties, rank,
        kinds=True,
    )  # fmt: skip
    rows = [[(k, v * sign, "x") for k in "abc"] for v in (1.0, 2.0, 2.0) for sign in (1, -1, 1, 0)]
    steps = [Rows(batch) for batch in batches_of(rows)]
    with below(room) as context:
        out = check_operator(operator_of(node, SCHEMA), steps, keys=["k"], context=context)
    table = pa.Table.from_batches([step.batch for step in steps])
    assert settled(out.rows) == answer(table, node, "k")


def test_pairs_of_changes_follow_each_other():
    node = TopN(
        StageInput(0, SCHEMA), (Column("k"),), (SortKey(Column("v"), True),), 2, rank="r",
        kinds=True,
    )  # fmt: skip
    rows = [[("a", 1.0, "")], [("a", 2.0, "")], [("a", 3.0, ""), ("b", 1.0, "")], [("a", 0.0, "")]]
    out = run_straight(operator_of(node, SCHEMA), list(map(Rows, batches_of(rows))))
    found = [[(r["k"], r["v"], r["r"], r[KIND]) for r in batch.to_pylist()] for batch in out.rows]
    assert found == [
        [("a", 1.0, 1, 0)],
        [("a", 1.0, 1, 1), ("a", 2.0, 1, 2), ("a", 1.0, 2, 0)],
        [("a", 2.0, 1, 1), ("a", 3.0, 1, 2), ("a", 1.0, 2, 1), ("a", 2.0, 2, 2), ("b", 1.0, 1, 0)],
    ]


def test_fewer_rows_stand_after_a_tie_is_beaten():
    node = TopN(
        StageInput(0, SCHEMA), (Column("k"),), (SortKey(Column("v"), True),), 1, ties=True,
        kinds=True,
    )  # fmt: skip
    rows = [[("a", 1.0, ""), ("a", 1.0, "")], [("a", 2.0, "")]]
    out = run_straight(operator_of(node, SCHEMA), list(map(Rows, batches_of(rows))))
    kinds = [batch.column(KIND).to_pylist() for batch in out.rows]
    assert kinds == [[0, 0], [1, 2, 3]]


ENDED = st.tuples(
    st.sampled_from("ab"), st.sampled_from([10, 20, 30, None]), st.integers(0, 4),
    st.sampled_from([BEGINNING, 9, 10, 19, 25, 31, 100]),
)  # fmt: skip


@settings(deadline=None, max_examples=50 if SOAK else 25)
@given(
    parts=st.lists(
        st.tuples(st.lists(ENDED, max_size=10), st.integers(0, 50)), min_size=1, max_size=5
    ),
    lateness=st.sampled_from([0, 5]),
    ties=st.booleans(),
    aside=st.booleans(),
    room=st.sampled_from(ROOMS),
)
def test_groups_that_close_come_once_without_late_rows(parts, lateness, ties, aside, room):
    node = TopN(
        StageInput(0, ENDS), (Column("k"), Column("end")), (SortKey(Column("v"), True),), 2, ties,
        "r", closes="end", lateness_us=lateness, late="side" if aside else "drop",
    )  # fmt: skip
    steps, rows, known = [], [], BEGINNING
    for part, until in parts:
        # a task's watermark is never ahead of a row's own
        dicts = [
            {"k": k, "end": end, "v": v, "i": len(rows) + i, WATERMARK: max(w, known)}
            for i, (k, end, v, w) in enumerate(part)
        ]
        rows += dicts
        known = max(known, until)
        steps += [Rows(pa.RecordBatch.from_pylist(dicts, ENDS)), Until(known)]
    with below(room) as context:
        out = check_operator(
            operator_of(node, ENDS), steps, keys=["k", "end"], context=context,
            abort_at=None if room is None else [2], behind=2,
        )  # fmt: skip
    late = [
        row for row in rows if row["end"] is not None and row["end"] + lateness <= row[WATERMARK]
    ]
    table = pa.Table.from_pylist([row for row in rows if row not in late], ENDS)
    expected = answer(table.drop_columns([WATERMARK]), node, 'k, "end"')
    assert settled(out.rows) == expected
    put_aside = [row["i"] for batch in out.sides.get("late", []) for row in batch.to_pylist()]
    assert sorted(put_aside) == ([row["i"] for row in late] if aside else [])


def test_a_window_comes_when_its_end_and_lateness_are_reached():
    node = TopN(
        StageInput(0, ENDS), (Column("k"), Column("end")), (SortKey(Column("v")),), 1,
        closes="end", lateness_us=5,
    )  # fmt: skip
    operator = operator_of(node, ENDS)()
    rows = [{"k": "a", "end": 10, "v": 1, "i": 0, WATERMARK: 0}]
    batch = pa.RecordBatch.from_pylist(rows, ENDS)
    assert operator.on_batch(0, batch) == []
    assert operator.on_watermark(14) == []
    (out,) = operator.on_watermark(15)
    assert out.schema.names == ["k", "end", "v", "i"]
    assert out.to_pylist()[0]["i"] == 0
    late = batch.set_column(4, WATERMARK, pa.array([15]))
    assert operator.on_batch(0, late) == []
    assert operator.counts() == {"late_rows": 1}
    assert operator.on_watermark(100) == []


def test_its_watermark_waits_for_the_windows_that_wait():
    """The next step dropped what came out of a window that had waited for late rows."""
    node = TopN(
        StageInput(0, ENDS), (Column("k"), Column("end")), (SortKey(Column("v")),), 1,
        closes="end", lateness_us=5,
    )  # fmt: skip
    operator = operator_of(node, ENDS)()
    rows = [{"k": "a", "end": end, "v": 1, "i": 0, WATERMARK: 0} for end in (10, 20, 30)]
    operator.on_batch(0, pa.RecordBatch.from_pylist(rows, ENDS))
    left, n_rows = BEGINNING, 0
    for time_us in (11, 16, 21, 40):
        for out in operator.on_watermark(time_us):
            n_rows += out.num_rows
            assert min(out.column("end").cast(pa.int64()).to_pylist()) > left
        left = operator.watermark(time_us)
    assert (n_rows, left) == (3, 35)


@pytest.mark.parametrize("room", ROOMS)
def test_the_order_of_a_dictionary_is_that_of_its_values(room):
    schema = pa.schema([("k", pa.string()), ("d", pa.dictionary(pa.int8(), pa.string()))])
    by = (SortKey(Column("d"), descending=True, nulls_last=True),)
    node = TopN(StageInput(0, schema), (Column("k"),), by, n=2, kinds=True)
    parts = [["b", "z", None], ["a", "y"], ["x", "c"]]  # each with codes of its own
    steps = [
        Rows(
            pa.record_batch([["k"] * len(part), pa.array(part).dictionary_encode()], schema=schema)
        )
        for part in parts
    ]
    with below(room) as context:
        out = check_operator(operator_of(node, schema), steps, keys=["k"], context=context)
    assert settled(out.rows) == {("k", "y"): 1, ("k", "z"): 1}
