"""All rows of two streams that stand, against DuckDB's join of them."""

import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.contract import Context
from fabric.operators.streams import deltas, updating_join
from fabric.operators.streams.two_streams import LEFT, RIGHT
from fabric.operators.streams.updating_join import UpdatingJoinOperator
from fabric.plan.expr import Call, Column
from fabric.plan.nodes import StageInput, UpdatingJoin
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND
from fabric.testing.operators import Clock, Kept, Rows, Until, check_operator, run_straight
from tests.operators.streams.test_stream_join import EXAMPLES, HOWS, JOINS, SIDE, drained
from tests.support.changes import settled

SCHEMAS = (
    pa.schema([("k", pa.int64()), ("v", pa.int64())]),
    pa.schema([("k", pa.int64()), ("w", pa.int64())]),
)
WITH_KINDS = tuple(schema.append(pa.field(KIND, pa.int8())) for schema in SCHEMAS)
HOUR = 3_600_000_000
WHERES = {"true": None, "v < w": Call("lt", (Column("v"), Column("w")))}
KEY = st.one_of(st.none(), st.integers(0, 1))


def node_of(how, where="true", sources=SCHEMAS):
    inputs = [StageInput(side, schema) for side, schema in enumerate(sources)]
    keys = (Column("k"),)
    return UpdatingJoin(
        *inputs, keys, keys, "", "", how, HOUR, WHERES[where], kinds=True
    )  # fmt: skip


def maker(node, sources=WITH_KINDS):
    return lambda: UpdatingJoinOperator(node, list(sources), schema_of(node))


def batch_of(side, rows):
    """Rows of (key, value, whether it is added)."""
    names = WITH_KINDS[side].names
    kinds = {(True, 0): 0, (True, 1): 2, (False, 0): 1, (False, 1): 3}
    dicts = [
        dict(zip(names, (k, v, kinds[added, (v + i) % 2]), strict=True))
        for i, (k, v, added) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(dicts, WITH_KINDS[side])


def answer(stand, how, where="true"):
    """What DuckDB's join has of the rows that stand on each side, as `settled`."""
    with duckdb.connect() as connection:
        for name, rows, schema in zip("lr", stand, SCHEMAS, strict=True):
            dicts = [dict(zip(schema.names, row, strict=True)) for row in rows.elements()]
            connection.register(name, pa.Table.from_pylist(dicts, schema))
        columns = "l.k, v" if how in ("semi", "anti") else "coalesce(l.k, r.k) AS k, v, w"
        found = connection.sql(
            f"SELECT {columns} FROM l {JOINS[how]} JOIN r ON l.k = r.k AND ({where})"
        )
        return settled(found.to_arrow_table().to_batches())


@st.composite
def histories(draw):
    """Batches of rows that are added and taken back, and what stands after them."""
    stand = (Counter(), Counter())
    steps = []
    for _ in range(draw(st.integers(4, 9))):
        side, rows = draw(SIDE), []
        for key, value, back in draw(
            st.lists(st.tuples(KEY, st.integers(0, 3), st.booleans()), min_size=1, max_size=5)
        ):
            there = sorted(stand[side].elements(), key=repr)
            if back and there:
                row = draw(st.sampled_from(there))
                stand[side][row] -= 1
                rows.append((*row, False))
            else:
                stand[side][key, value] += 1
                rows.append((key, value, True))
        steps.append(Rows(batch_of(side, rows), side))
        if draw(st.booleans()):
            steps.append(Until(len(steps)))
    return steps, stand


@settings(max_examples=EXAMPLES, deadline=None)
@given(history=histories(), where=st.sampled_from(list(WHERES)))
@pytest.mark.parametrize("how", HOWS)
def test_changes_come_to_duckdbs_rows(history, how, where):
    steps, stand = history
    node = node_of(how, where)
    out = run_straight(maker(node), steps, n_inputs=2)
    assert settled(out.rows) == answer(stand, how, where)
    assert all(batch.schema.equals(schema_of(node)) for batch in out.rows)


@settings(max_examples=max(24, EXAMPLES), deadline=None)
@given(
    history=histories(), how=st.sampled_from(HOWS), where=st.sampled_from(list(WHERES)),
    on_disk=st.booleans(),
)  # fmt: skip
def test_the_same_after_an_abort_and_with_other_numbers_of_tasks(history, how, where, on_disk):
    steps, stand = history
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        context = Context("tested", folder=Path(folder) / "state") if on_disk else Context("tested")
        patched.setattr(deltas, "FEW_BYTES", 0)
        node = node_of(how, where)
        out = check_operator(maker(node), steps, keys=["k"], n_inputs=2, context=context)
    assert settled(out.rows) == answer(stand, how, where)


@pytest.mark.parametrize("how", HOWS)
def test_rows_without_kinds_are_added(how):
    node = node_of(how)
    operator = maker(node, SCHEMAS)()
    rows = [[(1, 5), (2, 6), (2, 6), (None, 7)], [(2, 8), (3, 9), (2, 8), (None, 7)]]
    found = []
    for side, schema in enumerate(SCHEMAS):
        dicts = [dict(zip(schema.names, row, strict=True)) for row in rows[side]]
        batch = pa.RecordBatch.from_pylist(dicts, schema)
        found += drained(operator, operator.on_batch(side, batch))
    assert settled(found) == answer([Counter(side) for side in rows], how)


@pytest.mark.parametrize("how", HOWS)
def test_results_come_in_parts_deletes_first(monkeypatch, how):
    monkeypatch.setattr(updating_join, "ROWS_MAX", 3)
    operator = maker(node_of(how))()
    left = batch_of(LEFT, [(1, i, True) for i in range(7)])
    right = batch_of(RIGHT, [(1, i, True) for i in range(3)])
    found = list(operator.on_batch(LEFT, left))
    found += operator.on_batch(RIGHT, right)  # nobody has asked for more
    found = drained(operator, found)
    stand = [Counter({(1, i): 1 for i in range(n)}) for n in (7, 3)]
    assert settled(found) == answer(stand, how)
    assert max(batch.num_rows for batch in found) <= 3
    moved = batch_of(LEFT, [(1, 0, False), (1, 9, True)])
    kinds = [batch[KIND].to_pylist() for batch in drained(operator, operator.on_batch(LEFT, moved))]
    flat = [kind for batch in kinds for kind in batch]
    assert flat == sorted(flat, reverse=True)
    operator.close()


def changes(operator, side, *rows):
    found = drained(operator, operator.on_batch(side, batch_of(side, rows)))
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def test_a_row_stands_alone_until_its_first_partner_and_after_its_last():
    operator = maker(node_of("left"))()
    assert changes(operator, LEFT, (1, 3, True)) == [(1, 3, None, 0)]
    assert changes(operator, RIGHT, (1, 5, True)) == [(1, 3, None, 3), (1, 3, 5, 0)]
    assert changes(operator, RIGHT, (1, 6, True)) == [(1, 3, 6, 0)]
    assert changes(operator, RIGHT, (1, 5, False)) == [(1, 3, 5, 3)]
    assert changes(operator, RIGHT, (1, 6, False)) == [(1, 3, 6, 3), (1, 3, None, 0)]


def test_what_a_batch_adds_and_takes_back_is_no_change():
    operator = maker(node_of("inner"))()
    changes(operator, RIGHT, (1, 5, True))
    assert changes(operator, LEFT, (1, 3, True), (1, 3, False)) == []
    assert changes(operator, LEFT, (1, 3, True), (1, 3, False), (1, 4, True)) == [(1, 4, 5, 0)]
    assert operator._rows[LEFT]._table.n_groups == 1


def test_keys_without_rows_for_the_ttl_are_forgotten():
    operator = maker(node_of("left"))()
    operator.on_time(10)
    assert changes(operator, LEFT, (1, 3, True), (2, 3, True)) == [(1, 3, None, 0), (2, 3, None, 0)]
    operator.on_time(HOUR)
    assert changes(operator, RIGHT, (2, 5, True)) == [(2, 3, None, 3), (2, 3, 5, 0)]
    operator.on_time(HOUR + 10)  # of key 1 only
    assert changes(operator, RIGHT, (1, 7, True)) == []
    assert changes(operator, RIGHT, (2, 6, True)) == [(2, 3, 6, 0)]
    assert operator.on_barrier(1).write(Kept()) == 4
    operator.on_time(4 * HOUR)
    operator.on_time(6 * HOUR)
    assert operator.on_barrier(2).write(Kept()) == 0
    assert changes(operator, LEFT, (1, 3, False)) == []
    assert operator.counts() == {"unknown_retractions": 1}
    assert operator._keys.n_groups == 0


def test_a_restored_key_is_forgotten_when_it_would_have_been():
    steps = [
        Clock(10), Rows(batch_of(LEFT, [(1, 3, True), (2, 3, True)]), LEFT), Clock(HOUR - 1),
        Rows(batch_of(RIGHT, [(2, 5, True)]), RIGHT), Clock(HOUR + 10),
        Rows(batch_of(RIGHT, [(1, 7, True), (2, 7, True)]), RIGHT),
    ]  # fmt: skip
    out = check_operator(maker(node_of("inner")), steps, keys=["k"], n_inputs=2)
    assert settled(out.rows) == {(2, 3, 5): 1, (2, 3, 7): 1}


def test_checkpoints_add_only_keys_that_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)
    operator = maker(node_of("inner"))()
    operator.open(Context("tested", folder=tmp_path))
    changes(operator, LEFT, *((key, 1, True) for key in range(200)))
    changes(operator, RIGHT, (4, 8, True))
    first, second = Kept(), Kept()
    operator.on_barrier(1).write(first)
    changes(operator, LEFT, (3, 2, True), (4, 1, False))
    assert operator.on_barrier(2).write(second) == 201
    new = {name: data for name, data in second.files.items() if name not in first.files}
    assert sum(data.size for data in new.values()) < sum(f.size for f in first.files.values()) / 2
    operator.close()
    again = maker(node_of("inner"))()
    again.restore([second], range(1 << 15))
    found = changes(again, RIGHT, (3, 9, True), (4, 9, True), (5, 9, True))
    assert sorted(found) == [(3, 1, 9, 0), (3, 2, 9, 0), (5, 1, 9, 0)]
