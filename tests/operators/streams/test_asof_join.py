"""The nearest rows of another stream, against DuckDB's answer to the same question."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.event_time import END_OF_TIME
from fabric.operators.chain import build_chain
from fabric.operators.streams import asof_join, deltas
from fabric.operators.streams.asof_join import AsofJoinOperator, Versions
from fabric.operators.streams.two_streams import LEFT, RIGHT
from fabric.plan.expr import Column
from fabric.plan.nodes import AsofJoin, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.stream import WATERMARK
from fabric.testing.operators import Kept, Rows, check_operator
from tests.operators.streams.test_stream_join import (
    EXAMPLES,
    came_and_out,
    drained,
    splits,
    steps,
    timed,
)
from tests.support.changes import settled

US = pa.timestamp("us", "UTC")
SCHEMAS = (
    pa.schema([("k", pa.int64()), ("ts", US), ("v", pa.string())]),
    pa.schema([("k", pa.int64()), ("at", US), ("w", pa.int64()), ("off", pa.bool_())]),
)
KINDS = {
    "temporal": {"how": "inner", "deleted": Column("off")},
    "temporal left": {"deleted": Column("off")},
    "backward": {},
    "backward tolerance": {"tolerance_us": 6},
    "forward": {"strategy": "forward", "tolerance_us": 7},
    "nearest": {"strategy": "nearest", "tolerance_us": 5},
    "shifted": {"shift_us": 1, "how": "inner"},
}
"""What is asked for, by what it is called."""
APART = {"backward": "t >= a", "forward": "a >= t", "nearest": "true"}


def node_of(kind, exact=True, sources=None):
    left, right = sources or [StageInput(side, SCHEMAS[side]) for side in (LEFT, RIGHT)]
    keys = (Column("k"),)
    return AsofJoin(left, right, keys, keys, "ts", "at", exact=exact, **KINDS[kind])


def maker(node):
    return lambda: AsofJoinOperator(node, list(SCHEMAS), schema_of(node))


def batch_of(side, rows):
    """Rows of (key, time), of which rows of one key and time are alike."""
    names = SCHEMAS[side].names
    rest = (lambda k, t: ("abc"[t % 3],)) if side == LEFT else (
        lambda k, t: (100 * (k or 0) + t, (True, False, None)[t % 3])
    )  # fmt: skip
    dicts = [dict(zip(names, (k, t, *rest(k, t)), strict=True)) for k, t in rows]
    return pa.RecordBatch.from_pylist(dicts, SCHEMAS[side])


def answer(left, right, node):
    """The best of all pairs that DuckDB finds, as `settled`; `left` and `right` are batches."""
    tables = map(pa.Table.from_batches, (left, right), SCHEMAS)
    most = "" if node.tolerance_us is None else f"AND abs(t - a) <= {node.tolerance_us}"
    apart = "" if node.exact else "AND t <> a"
    kept = "WHERE w IS NOT NULL" if node.how == "inner" else ""
    gone = "off IS TRUE" if node.deleted is not None else "false"
    with duckdb.connect() as connection:
        for name, table in zip("lr", tables, strict=True):
            connection.register(name, table)
        found = connection.sql(f"""
            WITH a AS (SELECT *, epoch_us(ts) AS t, row_number() OVER () AS n FROM l),
                 b AS (SELECT DISTINCT *, epoch_us("at") + {node.shift_us} AS a FROM r),
                 best AS (
                    SELECT n, b."at", w, off FROM a JOIN b ON a.k = b.k
                    WHERE {APART[node.strategy]} {apart} {most}
                    QUALIFY row_number() OVER (PARTITION BY n ORDER BY abs(t - a), a DESC) = 1)
            SELECT k, ts, v, best."at", w, off FROM a
            LEFT JOIN best ON a.n = best.n AND NOT ({gone}) {kept}
        """)
        return settled(found.to_arrow_table().to_batches())


@settings(max_examples=EXAMPLES, deadline=None)
@given(rows=splits(), exact=st.booleans())
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "shifted"])
def test_any_interleaving_of_splits_gives_duckdbs_rows(rows, kind, exact):
    names = {side: sorted({f"s{n}" for s, n, *_ in rows if s == side}) for side in (LEFT, RIGHT)}
    node = node_of(kind, exact, [timed(LEFT, SCHEMAS), timed(RIGHT, SCHEMAS)])
    chain = build_chain(node, splits=names)
    came, out = came_and_out(chain, rows, batch_of)
    for batch, before, _ in out:
        assert batch.schema.equals(schema_of(node))
        assert min(batch.column("ts").cast(pa.int64()).to_pylist()) >= before
    assert settled([batch for batch, *_ in out]) == answer(*came, node)
    assert set(chain.counts()[""].values()) == {0}
    chain.close()


@settings(max_examples=max(24, EXAMPLES), deadline=None)
@given(
    steps=steps(batch_of), kind=st.sampled_from(list(KINDS)), exact=st.booleans(),
    behind=st.integers(0, 4),
)  # fmt: skip
def test_the_same_after_an_abort_and_with_other_numbers_of_tasks(steps, kind, exact, behind):
    node = node_of(kind, exact)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asof_join, "_SLACK", 0)
        out = check_operator(maker(node), steps, keys=["k"], n_inputs=2, behind=behind)
    came = [
        [step.batch for step in steps if isinstance(step, Rows) and step.input == side]
        for side in (LEFT, RIGHT)
    ]
    assert settled(out.rows) == answer(*came, node)


def fed(operator, side, *rows):
    return drained(operator, operator.on_batch(side, batch_of(side, rows)))


def until(operator, time_us):
    return [row for b in drained(operator, operator.on_watermark(time_us)) for row in b.to_pylist()]


@pytest.mark.parametrize(("kind", "exact", "due"), [
    ("backward", True, 11), ("backward", False, 10), ("forward", True, 18), ("nearest", True, 16),
    ("shifted", True, 10),
])  # fmt: skip
def test_a_row_waits_until_nothing_nearer_can_come(kind, exact, due):
    operator = maker(node_of(kind, exact))()
    fed(operator, RIGHT, (1, 9))
    assert fed(operator, LEFT, (1, 10)) == []
    assert until(operator, due - 1) == []
    assert operator.watermark(due - 1) <= 10
    assert len(until(operator, due)) == 1
    assert operator.watermark(END_OF_TIME) == END_OF_TIME


@pytest.mark.parametrize(("kind", "kept"), [
    ("backward", {19: 5, 20: 4, 25: 4, 30: 3, 99: 2}),
    ("backward tolerance", {19: 3, 25: 3, 27: 2, 99: 0}),
    ("forward", {17: 5, 19: 3, 31: 2, 99: 0}),
])  # fmt: skip
def test_versions_are_dropped_but_for_the_newest_of_each_key(kind, kept):
    operator = maker(node_of(kind))()
    fed(operator, RIGHT, (1, 10), (1, 20), (1, 30), (2, 10), (2, 40), (None, 50))
    for reached, n_rows in kept.items():
        until(operator, reached)
        assert operator.on_barrier(1).write(Kept()) == n_rows, reached


def test_many_versions_are_looked_through_now_and_then(monkeypatch):
    monkeypatch.setattr(asof_join, "_SLACK", 3)
    operator = maker(node_of("backward"))()
    most = 0
    for time in range(0, 400, 4):
        fed(operator, RIGHT, *((1, time + i) for i in range(4)))
        until(operator, time + 4)
        most = max(most, len(operator._versions))
    assert most <= 2 + 4 + 3


def test_the_version_that_came_last_counts_of_those_of_one_time():
    rows = pa.record_batch({"k": [1, 1, 1, 1], "v": [1, 2, 3, 4]})
    for strategy in ("backward", "forward", "nearest"):
        versions = Versions(rows.schema, ["k"], strategy, 5)
        versions.add(rows.slice(0, 2), np.array([7, 7]))
        versions.add(rows.slice(2), np.array([7, 30]))
        numbers = versions.find([pa.array([1, None, 2])], np.array([7, 7, 7]))
        assert versions.take(numbers)["v"].to_pylist() == [3, None, None]
        versions.tidy(7, at_once=True)
        assert len(versions) == (4 if strategy == "forward" else 2)


def test_of_two_versions_as_near_the_later_one_counts():
    rows = pa.record_batch({"k": [1, 1], "v": [1, 2]})
    versions = Versions(rows.schema, ["k"], "nearest", 9)
    versions.add(rows, np.array([10, 20]))
    numbers = versions.find([pa.array([1, 1, 1])], np.array([14, 15, 16]))
    assert versions.take(numbers)["v"].to_pylist() == [1, 2, 2]


def test_checkpoints_add_only_keys_with_new_versions(monkeypatch, tmp_path):
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    versions = Versions(schema, ["k"], "backward", 10)
    versions.keep_in(tmp_path)

    def add(keys, time):
        rows = pa.record_batch({"k": keys, "v": [time] * len(keys)}, schema)
        versions.add(rows, np.full(len(keys), time))

    add(range(100), 1)
    first, second = Kept(), Kept()
    assert versions.snapshot().write(first) == 100
    add([3, 4], 9)
    versions.tidy(12, at_once=True)  # those of 1 are too old for anybody
    assert versions.snapshot().write(second) == 2
    new = {name: data for name, data in second.files.items() if name not in first.files}
    assert sum(data.size for data in new.values()) < sum(f.size for f in first.files.values()) / 2
    again = Versions(schema, ["k"], "backward", 10)
    for rows in again.restored([second], range(1 << 15)):
        again.add(rows, rows.column("v").to_numpy())
    found = again.take(again.find([pa.array([3, 4, 5])], np.array([10, 20, 10])))
    assert found["v"].to_pylist() == [9, None, None]
    versions.close()


def test_late_rows_are_counted_by_side_and_meet_nobody():
    schemas = [schema.append(pa.field(WATERMARK, pa.int64())) for schema in SCHEMAS]
    sources = [StageInput(side, schemas[side]) for side in (LEFT, RIGHT)]
    node = replace(node_of("backward", True, sources), late="side")

    def rows(side, *given):
        batch = batch_of(side, [row[:2] for row in given])
        return Rows(batch.append_column(WATERMARK, pa.array([row[2] for row in given])), side)

    made = []

    def make():
        made.append(AsofJoinOperator(node, schemas, schema_of(node)))
        return made[-1]

    given = [
        rows(RIGHT, (1, 5, 0), (1, 8, 9)),
        rows(LEFT, (1, 9, 0), (2, 9, 10)),
    ]
    out = check_operator(make, given, keys=["k"], n_inputs=2)
    assert [row["w"] for batch in out.rows for row in batch.to_pylist()] == [105]
    assert {tag: sum(b.num_rows for b in rows) for tag, rows in out.sides.items()} == {
        "late_left": 1, "late_right": 1,
    }  # fmt: skip
    assert made[0].counts() == {"late_left": 1, "late_right": 1}


def test_texts_dictionaries_and_several_keys_are_found():
    kind = pa.dictionary(pa.int8(), pa.string())
    left = pa.schema([("a", pa.string()), ("b", pa.float64()), ("ts", US)])
    right = pa.schema([("a", pa.string()), ("b", pa.float64()), ("ts", US), ("w", kind)])
    keys = (Column("a"), Column("b"))
    node = AsofJoin(StageInput(0, left), StageInput(1, right), keys, keys, "ts", "ts")
    operator = AsofJoinOperator(node, [left, right], schema_of(node))
    for at, word in enumerate(("x", "y", "x")):
        batch = {"a": ["p", "q"], "b": [0.0, float("nan")], "ts": [at, at], "w": [word, word * 2]}
        rows = pa.RecordBatch.from_pydict(batch, right)
        drained(operator, operator.on_batch(RIGHT, rows))
    batch = {"a": ["p", "q", None, "q"], "b": [-0.0, float("nan"), 0.0, 1.0], "ts": [1, 9, 9, 9]}
    drained(operator, operator.on_batch(LEFT, pa.RecordBatch.from_pydict(batch, left)))
    assert schema_of(node).names == ["a", "b", "ts", "w"]
    assert sorted(str(row["w"]) for row in until(operator, 99)) == ["None", "None", "xx", "y"]
