"""Rows of two streams near each other in time, against DuckDB's joins of the same rows."""

from dataclasses import replace
from itertools import groupby

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import DataError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators.chain import build_chain
from fabric.operators.streams import stream_join
from fabric.operators.streams.stream_join import StreamJoinOperator
from fabric.operators.streams.two_streams import LEFT, RIGHT
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import StageInput, StreamJoin, Watermark
from fabric.plan.schema import schema_of
from fabric.plan.stream import WATERMARK
from fabric.testing.operators import Kept, Rows, Until, check_operator
from tests.support.changes import settled
from tests.support.sampled import SOAK

US = pa.timestamp("us", "UTC")
SCHEMAS = (
    pa.schema([("k", pa.int64()), ("ts", US), ("v", pa.string())]),
    pa.schema([("k", pa.int64()), ("at", US), ("w", pa.int64())]),
)
EXAMPLES = 200 if SOAK else 20
HOWS = ["inner", "left", "right", "full", "semi", "anti"]
JOINS = {how: how.upper() for how in HOWS}
BOUND_US = 5

SIDE = st.sampled_from([LEFT, RIGHT])
KEY = st.one_of(st.none(), st.integers(0, 3))
TIME = st.integers(0, 40)
BOUNDS = st.tuples(st.integers(-12, 12), st.integers(0, 12)).map(lambda b: (b[0], b[0] + b[1]))
IS_B = Call("eq", (Column("v"), Literal("b", pa.string())))
HALF = Call("floor_remainder", (Column("w"), Literal(2, pa.int64())))
IS_EVEN = Call("eq", (HALF, Literal(0, pa.int64())))
WHERES = {
    "true": None,
    "v = 'b'": IS_B,
    "w % 2 = 0": IS_EVEN,
    "w % 2 = 0 OR v = 'b'": Call("or", (IS_EVEN, IS_B)),
    "w > epoch_us(ts)": Call("gt", (Column("w"), Call("unix_micros", (Column("ts"),)))),
    "false": Literal(False, pa.bool_()),
}


def node_of(how, bounds, sources=None, where="true"):
    left, right = sources or [StageInput(side, SCHEMAS[side]) for side in (LEFT, RIGHT)]
    return StreamJoin(
        left, right, (Column("k"),), (Column("k"),), "ts", "at", *bounds, how=how,
        condition=WHERES[where],
    )  # fmt: skip


def maker(node):
    return lambda: StreamJoinOperator(node, list(SCHEMAS), schema_of(node))


def batch_of(side, rows):
    """Rows of (key, time), and a value that depends on the time."""
    names = SCHEMAS[side].names
    dicts = [dict(zip(names, (k, t, ("a", "b", None)[(i + t) % 3] if side == LEFT else i + t),
                      strict=True)) for i, (k, t) in enumerate(rows)]  # fmt: skip
    return pa.RecordBatch.from_pylist(dicts, SCHEMAS[side])


def answer(left, right, how, bounds, where="true"):
    """What DuckDB's join has, as `settled`; `left` and `right` are batches."""
    tables = map(pa.Table.from_batches, (left, right), SCHEMAS)
    columns = "l.k, ts, v"
    if how not in ("semi", "anti"):
        columns = 'coalesce(l.k, r.k) AS k, ts, v, r."at", w'
    near = f'epoch_us(r."at") - epoch_us(l.ts) BETWEEN {bounds[0]} AND {bounds[1]}'
    with duckdb.connect() as connection:
        for name, table in zip("lr", tables, strict=True):
            connection.register(name, table)
        found = connection.sql(
            f"SELECT {columns} FROM l {JOINS[how]} JOIN r ON l.k = r.k AND {near} AND ({where})"
        )
        return settled(found.to_arrow_table().to_batches())


def drained(operator, found):
    found = list(found)
    while operator.has_more:
        found += operator.more()
    return found


def came_and_out(chain, rows, batch_of):
    """The batches that came in on each side; those that came out, with the watermark before what
    brought them and the one after."""
    came, out = ([], []), []

    def take(before, found):
        out.extend((batch, before, chain.watermarks[""]) for batch in drained(chain, found))

    for (side, split), part in groupby(rows, lambda row: row[:2]):
        batch = batch_of(side, [row[2:] for row in part])
        came[side].append(batch)
        chain.on_split(side, f"s{split}")
        before = chain.watermarks[""]
        take(before, chain.on_batch(side, batch))
    for side in (LEFT, RIGHT):
        before = chain.watermarks[""]
        take(before, chain.on_end(side))
    return came, out


@st.composite
def splits(draw):
    """1 to 4 splits, each of a side with rows at most `BOUND_US` behind, in any interleaving."""
    rows = []
    for number in range(draw(st.integers(1, 4))):
        side, most = draw(SIDE), -(10**6)
        for key, time in draw(st.lists(st.tuples(KEY, TIME), max_size=8)):
            most = max(most, time)
            rows.append((side, number, key, max(time, most - BOUND_US)))
    return [rows[i] for i in _interleaved(draw, [row[1] for row in rows])]


def _interleaved(draw, splits):
    """Places of rows such that those of a split stay in order."""
    mixed = draw(st.permutations(splits))
    queues = {split: [i for i, each in enumerate(splits) if each == split] for split in splits}
    return [queues[split].pop(0) for split in mixed]


def timed(side, schemas=SCHEMAS):
    source = StageInput(side, schemas[side])
    return Watermark(source, schemas[side].names[1], BOUND_US, rows=True)


@settings(max_examples=EXAMPLES, deadline=None)
@given(rows=splits(), bounds=BOUNDS, where=st.sampled_from(list(WHERES)))
@pytest.mark.parametrize("how", HOWS)
def test_any_interleaving_of_splits_gives_duckdbs_rows(rows, bounds, how, where):
    names = {side: sorted({f"s{n}" for s, n, *_ in rows if s == side}) for side in (LEFT, RIGHT)}
    node = node_of(how, bounds, [timed(LEFT), timed(RIGHT)], where)
    chain = build_chain(node, splits=names)
    time = {"right": "at", "full": None}.get(how, "ts")
    came, out = came_and_out(chain, rows, batch_of)
    for batch, before, reached in out:
        assert batch.schema.equals(schema_of(node))
        if time is not None and batch.num_rows and reached > BEGINNING + 1:
            assert min(batch.column(time).cast(pa.int64()).to_pylist()) >= before
    assert settled([batch for batch, *_ in out]) == answer(*came, how, bounds, where)
    counts = chain.counts()[""]
    assert counts["late_left"] == counts["late_right"] == 0
    chain.close()


@st.composite
def steps(draw, batch_of=batch_of):
    """Rows of both sides and watermarks that none of them is behind."""
    rows = draw(st.lists(st.tuples(SIDE, KEY, TIME), max_size=14))
    rows = sorted(rows, key=lambda row: row[2] + draw(st.integers(0, 9)))
    made = []
    for n, (side, key, time) in enumerate(rows):
        made.append(Rows(batch_of(side, [(key, time)]), side))
        if draw(st.booleans()):
            made.append(Until(min((row[2] for row in rows[n + 1 :]), default=50)))
    return made


@settings(max_examples=24, deadline=None)
@given(
    steps=steps(), bounds=BOUNDS, how=st.sampled_from(HOWS), behind=st.integers(0, 4),
    where=st.sampled_from(list(WHERES)),
)  # fmt: skip
def test_the_same_after_an_abort_and_with_other_numbers_of_tasks(steps, bounds, how, behind, where):
    node = node_of(how, bounds, where=where)
    out = check_operator(maker(node), steps, keys=["k"], n_inputs=2, behind=behind)
    given = [
        [step.batch for step in steps if isinstance(step, Rows) and step.input == side]
        for side in (LEFT, RIGHT)
    ]
    assert settled(out.rows) == answer(*given, how, bounds, where)


@pytest.mark.parametrize("how", HOWS)
def test_rows_are_put_out_in_parts_in_the_order_of_the_calls(monkeypatch, how):
    monkeypatch.setattr(stream_join, "ROWS_MAX", 3)
    monkeypatch.setattr(stream_join, "_PAIRS_MAX", 4)
    node = node_of(how, (0, 1))
    operator = maker(node)()
    left = batch_of(LEFT, [(i % 3, i % 3) for i in range(11)])
    right = batch_of(RIGHT, [(i % 2, i % 3) for i in range(11)])
    found = list(operator.on_batch(LEFT, left.slice(0, 6)))
    for side, batch in ((RIGHT, right.slice(0, 7)), (LEFT, left.slice(6)), (RIGHT, right.slice(7))):
        found += operator.on_batch(side, batch)  # nobody has asked for more
    found += operator.on_watermark(END_OF_TIME)
    found = drained(operator, found)
    assert settled(found) == answer([left], [right], how, (0, 1))
    assert max(batch.num_rows for batch in found) <= (11 if how == "semi" else 3)
    operator.close()


def test_rows_are_dropped_as_soon_as_no_partner_can_come():
    node = node_of("inner", (-2, 3))
    operator = maker(node)()
    drained(operator, operator.on_batch(LEFT, batch_of(LEFT, [(1, 10)])))
    drained(operator, operator.on_batch(RIGHT, batch_of(RIGHT, [(2, 10)])))
    left, right = operator._sides
    for reached, kept in ((12, (1, 1)), (13, (1, 0)), (14, (0, 0))):
        drained(operator, operator.on_watermark(reached))
        assert (left.table.n_rows, right.table.n_rows) == kept


def test_a_snapshot_says_how_many_rows_wait():
    operator = maker(node_of("full", (-5, 5)))()
    drained(operator, operator.on_batch(LEFT, batch_of(LEFT, [(1, 10), (2, 30), (None, 30)])))
    drained(operator, operator.on_batch(RIGHT, batch_of(RIGHT, [(1, 12)])))
    assert operator.on_barrier(1).write(Kept()) == 4
    drained(operator, operator.on_watermark(20))
    assert operator.on_barrier(2).write(Kept()) == 2


@pytest.mark.parametrize(("how", "bounds", "leaves"), [
    ("inner", (-2, 3), 97), ("left", (-2, -1), 100), ("semi", (1, 9), 91), ("anti", (0, 0), 100),
    ("right", (-2, 3), 98), ("right", (1, 3), 100), ("full", (-7, 3), 93), ("full", (1, 2), 98),
])  # fmt: skip
def test_the_watermark_that_leaves_is_as_far_back_as_rows_may_be(how, bounds, leaves):
    operator = maker(node_of(how, bounds))()
    assert operator.watermark(100) == leaves
    assert operator.watermark(END_OF_TIME) == END_OF_TIME


def test_late_rows_are_counted_by_side_and_meet_nobody():
    schemas = [schema.append(pa.field(WATERMARK, pa.int64())) for schema in SCHEMAS]
    sources = [StageInput(side, schemas[side]) for side in (LEFT, RIGHT)]
    node = replace(node_of("full", (-5, 5), sources), late="side")

    def rows(side, *given):
        batch = batch_of(side, [row[:2] for row in given])
        return Rows(batch.append_column(WATERMARK, pa.array([row[2] for row in given])), side)

    steps = [
        rows(LEFT, (1, 10, 10), (1, 10, 11), (2, 12, 0)),  # the second is behind its own split
        rows(RIGHT, (1, 12, 0), (1, 7, 9)),
        Until(14),
        rows(RIGHT, (2, 13, 0), (2, 14, 0)),  # the first is behind the operator
    ]
    made = []

    def make():
        made.append(StreamJoinOperator(node, schemas, schema_of(node)))
        return made[-1]

    out = check_operator(make, steps, keys=["k"], n_inputs=2)
    found = pa.Table.from_batches(out.rows).select(["k", "ts", "at"])
    times = [
        tuple(row.values())
        for row in found.cast(
            pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("at", pa.int64())])
        ).to_pylist()
    ]
    assert sorted(times) == [(1, 10, 12), (2, 12, 14)]
    aside = {tag: [row for batch in rows for row in batch.to_pylist()]
             for tag, rows in out.sides.items()}  # fmt: skip
    assert {tag: len(rows) for tag, rows in aside.items()} == {"late_left": 1, "late_right": 2}
    assert all(
        batch.schema.equals(SCHEMAS[tag == "late_right"])
        for tag, rows in out.sides.items()
        for batch in rows
    )
    assert made[0].counts() == {"late_left": 1, "late_right": 2}
    assert WATERMARK not in out.rows[0].schema.names


MINUTE = 60_000_000


@pytest.mark.parametrize(("left", "right", "still"), [
    ((5, 5), (7, 9), {"still_left"}),
    ((7, 9), (5, 5), {"still_right"}),
    ((BEGINNING, BEGINNING), (1, 2), {"still_left"}),
    ((BEGINNING, BEGINNING), (IDLE, IDLE), {"still_left"}),
    ((BEGINNING, BEGINNING), (BEGINNING, BEGINNING), {"still_left", "still_right"}),
    ((5, 6), (7, 9), set()),
    ((5, 5), (IDLE, IDLE), set()),
    ((IDLE, IDLE), (5, 9), set()),
    ((5, 5), (5, 5), set()),
    ((5, 5), (END_OF_TIME, END_OF_TIME), {"still_left"}),
    ((END_OF_TIME, END_OF_TIME), (5, 6), set()),
])  # fmt: skip
def test_a_side_that_holds_the_other_up_for_a_minute_is_counted(left, right, still):
    """Each side's watermark at first, and a minute later."""
    operator = maker(node_of("inner", (0, 0)))()

    def told():
        return {name for name, n in operator.counts().items() if "still" in name and n}

    for now_us in (0, MINUTE - 1):
        operator.on_input_times([left[0], right[0]], now_us)
        assert told() == set()
    operator.on_input_times([left[1], right[1]], MINUTE)
    assert told() == still
    operator.on_input_times([END_OF_TIME, END_OF_TIME], MINUTE)
    assert told() == set()


def test_a_chain_tells_a_join_the_watermarks_of_its_sides():
    chain = build_chain(node_of("inner", (0, 0)))
    chain.on_watermark(RIGHT, 50)
    for now in (0, MINUTE):
        chain.on_time(now)
    assert chain.counts()[""]["still_left"] == 1
    chain.on_watermark(LEFT, 60)
    chain.on_time(MINUTE + 1)
    assert "still_left" not in chain.counts()[""]
    chain.close()


def test_a_time_that_is_too_far_away_is_an_error():
    operator = maker(node_of("inner", (0, 0)))()
    with pytest.raises(DataError, match="'ts' is too far away"):
        operator.on_batch(LEFT, batch_of(LEFT, [(1, 1 << 62)]))
