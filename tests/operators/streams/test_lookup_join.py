"""Rows of a stream with those of a table, against DuckDB's joins."""

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import InternalError
from fabric.operators.streams import lookup_join
from fabric.operators.streams.lookup_join import STREAM, TABLE, LookupJoinOperator
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import LookupJoin, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND, WATERMARK
from fabric.testing.operators import Rows, Until, check_operator
from tests.support.changes import settled

STREAM_SCHEMA = pa.schema([
    ("k", pa.int32()), (WATERMARK, pa.int64()), ("s", pa.string()), ("v", pa.int64())
])  # fmt: skip
TABLE_SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string()), ("v", pa.float64())])
HOWS = ["inner", "left", "semi", "anti"]
JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN"}

KEY = st.one_of(st.none(), st.integers(0, 4))
TEXT = st.sampled_from(["x", "y", None])
STREAM_ROWS = st.lists(st.tuples(KEY, TEXT, st.integers(0, 99)), max_size=12)
TABLE_ROWS = st.lists(st.tuples(KEY, TEXT, st.floats(0, 1)), max_size=12)


class Fed(LookupJoinOperator):
    """One whose table has come when it is opened."""

    def open(self, context):
        super().open(context)
        for batch in self.table:
            assert self.on_batch(TABLE, batch) == []
        assert self.on_end(TABLE) == []


def make(node, table):
    def operator():
        made = Fed(node, STREAM_SCHEMA, TABLE_SCHEMA, schema_of(node))
        made.table = table
        return made

    return operator


def node_of(how, left=("k", "s"), right=("k", "t")):
    keys = [tuple(map(Column, names)) for names in (left, right)]
    return LookupJoin(
        StageInput(0, STREAM_SCHEMA), StageInput(1, TABLE_SCHEMA), *keys, how=how
    )  # fmt: skip


def stream_of(rows):
    dicts = [{"k": k, "s": s, "v": v, WATERMARK: v} for k, s, v in rows]
    return pa.RecordBatch.from_pylist(dicts, STREAM_SCHEMA)


def table_of(rows):
    return pa.RecordBatch.from_pylist([{"k": k, "t": t, "v": v} for k, t, v in rows], TABLE_SCHEMA)


def answer(stream, table, node):
    given, rows = pa.Table.from_batches([stream]), pa.Table.from_batches([table])
    names = zip(node.left_keys, node.right_keys, strict=True)
    on = " AND ".join(f"given.{a.name} = rows.{b.name}" for a, b in names)
    more = ", rows.t, rows.v AS v_right" if node.how in ("inner", "left") else ""
    found = duckdb.sql(
        f"SELECT given.k, s, given.v{more}, {WATERMARK} FROM given {JOINS[node.how]} rows ON {on}"
    )
    del given, rows
    return settled(found.to_arrow_table().to_batches())


@settings(deadline=None)
@given(stream=STREAM_ROWS, table=TABLE_ROWS, how=st.sampled_from(HOWS), n_keys=st.integers(1, 2))
def test_rows_are_duckdbs(stream, table, how, n_keys):
    node = node_of(how, ("k", "s")[:n_keys], ("k", "t")[:n_keys])
    batch, rows = stream_of(stream), table_of(table)
    made = make(node, [rows.slice(0, 5), rows.slice(5)])
    steps = [Rows(batch.slice(0, 4)), Until(3), Rows(batch.slice(4))]
    out = check_operator(made, steps, keys=["k"])
    assert settled(out.rows) == answer(batch, rows, node)
    assert all(each.schema.equals(schema_of(node)) for each in out.rows)


@pytest.mark.parametrize("how", HOWS)
def test_a_table_without_rows(how):
    node, batch = node_of(how), stream_of([(1, "x", 5), (None, "y", 6)])
    for table in ([], [table_of([])]):
        out = check_operator(make(node, table), [Rows(batch)], keys=["k"])
        assert settled(out.rows) == answer(batch, table_of([]), node)


def test_a_row_with_many_equals_is_put_out_in_parts(monkeypatch):
    monkeypatch.setattr(lookup_join, "_ROWS_MAX", 4)
    node = node_of("left", ("k",), ("k",))
    table = table_of([(1, "x", float(i)) for i in range(9)] + [(2, "y", 0.5)])
    batch = stream_of([(1, "a", 0), (3, "b", 1), (1, "c", 2), (2, "d", 3)])
    out = check_operator(make(node, [table]), [Rows(batch)], keys=["k"])
    assert max(each.num_rows for each in out.rows) == 4
    assert settled(out.rows) == answer(batch, table, node)


def test_rows_keep_their_order_and_those_of_the_table_theirs():
    node = node_of("inner", ("k",), ("k",))
    table = table_of([(2, "b", 0.0), (1, "a", 1.0), (2, "c", 2.0)])
    (out,) = check_operator(make(node, [table]), [Rows(stream_of([(2, "", 0), (1, "", 1)]))]).rows
    assert out.column("t").to_pylist() == ["b", "c", "a"]


def test_kinds_of_rows_stay():
    schema = pa.schema([*STREAM_SCHEMA, (KIND, pa.int8())])
    node = LookupJoin(
        StageInput(0, schema), StageInput(1, TABLE_SCHEMA), (Column("k"),), (Column("k"),)
    )
    operator = LookupJoinOperator(node, schema, TABLE_SCHEMA, schema_of(node))
    operator.on_batch(TABLE, table_of([(1, "x", 0.5)]))
    operator.on_end(TABLE)
    rows = stream_of([(1, "a", 7)]).append_column(KIND, pa.array([3], pa.int8()))
    (out,) = operator.on_batch(STREAM, rows)
    assert out.schema.names[-2:] == [WATERMARK, KIND]
    assert out.column(KIND).to_pylist() == [3]
    assert out.column(WATERMARK).to_pylist() == [7]


def test_keys_may_be_computed():
    double = Call("multiply", (Column("k"), Literal(2, pa.int32())))
    node = LookupJoin(
        StageInput(0, STREAM_SCHEMA), StageInput(1, TABLE_SCHEMA), (double,), (Column("k"),)
    )
    table = table_of([(2, "x", 0.5)])
    (out,) = check_operator(make(node, [table]), [Rows(stream_of([(1, "a", 7)]))]).rows
    assert out.column("t").to_pylist() == ["x"]


def test_a_stream_before_its_table_is_a_bug():
    node = node_of("inner")
    operator = LookupJoinOperator(node, STREAM_SCHEMA, TABLE_SCHEMA, schema_of(node))
    with pytest.raises(InternalError, match="before the whole table"):
        operator.on_batch(STREAM, stream_of([(1, "a", 7)]))
