"""One row of each key in all ways of the harness, against DuckDB and a model of keys that rest."""

from itertools import product

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.event_time import BEGINNING
from fabric.operators.streams.deduplicate import deduplicate_operator
from fabric.plan.expr import Column
from fabric.plan.nodes import Deduplicate, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND, WATERMARK
from fabric.testing.operators import Clock, Rows, Until, check_operator, run_straight
from tests.support.changes import settled
from tests.support.little_memory import ROOMS, below
from tests.support.sampled import sampled

SCHEMA = pa.schema([
    ("k", pa.string()), ("j", pa.int32()), ("t", pa.timestamp("ms")), ("i", pa.int64())
])  # fmt: skip
SOURCE = StageInput(0, SCHEMA)
KEYS = (Column("k"), Column("j"))
ENDS = pa.schema([
    ("k", pa.string()), ("end", pa.timestamp("us")), ("i", pa.int64()), (WATERMARK, pa.int64()),
])  # fmt: skip

ROW = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None]),
    st.one_of(st.none(), st.integers(0, 5)),
)  # fmt: skip
BATCHES = st.lists(st.lists(ROW, max_size=15), min_size=1, max_size=5)
CHOICES = [(keep, by) for keep in ("first", "last") for by in ("", "t")]


def batches_of(rows):
    number = 0
    for part in rows:
        dicts = [{"k": k, "j": j, "t": t, "i": number + i} for i, (k, j, t) in enumerate(part)]
        number += len(part)
        yield pa.RecordBatch.from_pylist(dicts, SCHEMA)


def operator_of(node, schema=SCHEMA):
    return lambda: deduplicate_operator(node, schema, schema_of(node))


def node_of(keep, by, **more):
    changes = keep == "last" or bool(by)
    return Deduplicate(SOURCE, KEYS, keep, by, kinds=changes, **more)


def answer(rows, keep, by):
    direction = "DESC" if keep == "last" else "ASC"
    order = f"{by} {direction} NULLS LAST, i {direction}" if by else f"i {direction}"
    over = f"row_number() OVER (PARTITION BY k, j ORDER BY {order})"
    found = duckdb.sql(f"SELECT k, j, t, i FROM rows QUALIFY {over} = 1").to_arrow_table()
    return settled(found.to_batches())


@settings(deadline=None)
@given(rows=BATCHES, choice=st.sampled_from(CHOICES), room=st.sampled_from(ROOMS))
def test_the_row_that_stands_is_duckdbs(rows, choice, room):
    batches = list(batches_of(rows))
    with below(room) as context:
        make = operator_of(node_of(*choice))
        out = run_straight(make, list(map(Rows, batches)), context=context)
    assert settled(out.rows) == answer(pa.Table.from_batches(batches), *choice)


CASES = [
    (room, *case)
    for n, room in enumerate(ROOMS)
    for case in sampled([*product(CHOICES, [0, 15])], 3, salt=f"deduplicate {n}")
]
"""Some in each room."""


@pytest.mark.parametrize(("room", "choice", "ttl_us"), CASES)
def test_an_abort_or_other_tasks_change_nothing(choice, ttl_us, room):
    times = [(3, None), (None, 5, 2), (2, 2), (9,), (1, 4), (0,)]
    rows = [[(k, j, t) for t in some for k in ("a", "b", None) for j in (1, 2)] for some in times]
    steps = [Clock(0)]
    for at, batch in enumerate(batches_of(rows)):
        steps += [Rows(batch.slice(0, batch.num_rows - at)), Clock(10 * (at + 1) + 7 * (at == 3))]
    make = operator_of(node_of(*choice, ttl_us=ttl_us))
    with below(room) as context:
        out = check_operator(make, steps, keys=["k", "j"], context=context)
    if not ttl_us:
        table = pa.Table.from_batches([s.batch for s in steps if isinstance(s, Rows)])
        assert settled(out.rows) == answer(table, *choice)


def resting_model(steps, ttl_us):
    """The first row by arrival of each key since its last rest."""
    seen, now, out = {}, 0, []
    for step in steps:
        if isinstance(step, Clock):
            now = step.now_us
            continue
        for row in step.batch.to_pylist():
            key = row["k"], row["j"]
            if key not in seen or seen[key] + ttl_us <= now:
                out.append(tuple(row.values()))
            seen[key] = now
    return out


@settings(deadline=None)
@given(
    parts=st.lists(
        st.tuples(st.lists(ROW, max_size=8), st.integers(0, 12)), min_size=1, max_size=8
    ),
    room=st.sampled_from(ROOMS),
)
def test_a_key_without_rows_is_forgotten(parts, room):
    steps, now = [Clock(0)], 0
    for batch, (_, later) in zip(batches_of([rows for rows, _ in parts]), parts, strict=True):
        now += later
        steps += [Rows(batch), Clock(now)]
    with below(room) as context:
        make = operator_of(node_of("first", "", ttl_us=10))
        out = run_straight(make, steps, context=context)
    found = [tuple(row.values()) for batch in out.rows for row in batch.to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, resting_model(steps, 10)))


def test_rows_before_the_first_time_rest_from_then_on():
    batch = next(batches_of([[("a", 1, 0)]]))
    operator = operator_of(node_of("first", "", ttl_us=10))()
    assert operator.on_batch(0, batch)
    operator.on_time(1_000)
    assert operator.on_batch(0, batch) == []
    operator.on_time(1_010)
    assert operator.on_batch(0, batch)


def test_a_resting_key_begins_with_an_insert():
    batch = next(batches_of([[("a", 1, 0)]]))
    operator = operator_of(node_of("last", "", ttl_us=10))()
    kinds = []
    for now in (0, 5, 15):
        operator.on_time(now)
        kinds += [b.column(KIND).to_pylist() for b in operator.on_batch(0, batch)]
    assert kinds == [[0], [1, 2], [0]]


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("room", ROOMS)
def test_closing_groups_are_put_out_once_and_forgotten(keep, aside, room):
    node = Deduplicate(
        StageInput(0, ENDS), (Column("k"), Column("end")), keep, closes="end", lateness_us=5,
        late="side" if aside else "drop",
    )  # fmt: skip
    rows = [
        [("a", 10, 0, BEGINNING), ("a", 10, 1, 3), ("b", 20, 2, 3), ("a", None, 3, 3)],
        [("a", 10, 4, 14), ("a", 10, 5, 15), ("b", 20, 6, 20)],
        [("a", 10, 7, 40), ("b", 30, 8, 30)],
    ]
    batches = [
        pa.RecordBatch.from_pylist(
            [{"k": k, "end": end, "i": i, WATERMARK: w} for k, end, i, w in part], ENDS
        )
        for part in rows
    ]
    steps = [Rows(batches[0]), Until(9), Rows(batches[1]), Until(20), Rows(batches[2]), Until(29)]
    with below(room) as context:
        out = check_operator(
            operator_of(node, ENDS), steps, keys=["k", "end"], behind=2, context=context
        )
    found = sorted(row["i"] for batch in out.rows for row in batch.to_pylist())
    assert found == ([0, 2, 3, 8] if keep == "first" else [3, 4, 6, 8])
    late = [row["i"] for batch in out.sides.get("late", []) for row in batch.to_pylist()]
    assert late == ([5, 7] if aside else [])


def test_first_rows_keep_their_own_watermark():
    node = Deduplicate(StageInput(0, ENDS), (Column("k"),), rows=True)
    batch = pa.RecordBatch.from_pylist([{"k": "a", "end": None, "i": 0, WATERMARK: 7}], ENDS)
    (out,) = operator_of(node, ENDS)().on_batch(0, batch)
    assert out.column(WATERMARK).to_pylist() == [7]
