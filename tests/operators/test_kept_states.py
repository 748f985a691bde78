"""What operators keep, read from their snapshots as rows: against sums in dicts, with each engine.

Operators run in little memory as well, so that groups lie in files, and parts of one group in
memory and below.
"""

from collections import Counter, defaultdict
from datetime import UTC

import pyarrow as pa
import pytest

from fabric.errors import DataError, NotFoundError
from fabric.operators.contract import Context
from fabric.operators.kept_states import kept_in, key_groups_of, keys_as, pieces
from fabric.operators.node_operators import operator_of
from fabric.operators.streams import deltas
from fabric.operators.streams.windows import time_windows
from fabric.plan.event_windows import Count, Session, Sliding, Trigger, Tumbling
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import Deduplicate, StageInput, StateField, StreamAggregate, TopN
from fabric.plan.process import Process
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND
from fabric.state.opened import opened
from fabric.state.rocksdb.table import RocksTable
from fabric.testing.operators import Kept
from tests.support.little_memory import ROOMS, below
from tests.support.processing import SCHEMA as PROCESSED
from tests.support.processing import node_of

SOURCE = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("v", pa.int64())])
ALL = range(1 << 15)
AGGS = (
    Alias(Agg("count", None), "n"),
    Alias(Agg("sum", Column("v")), "total"),
    Alias(Agg("mean", Column("v")), "mean"),
)
ROWS = [(f"k{i % 37}", (i * 7919) % 20_000_000, i % 101) for i in range(3_000)]


def batches(n=300):
    for begin in range(0, len(ROWS), n):
        k, ts, v = zip(*ROWS[begin : begin + n], strict=True)
        yield pa.record_batch([pa.array(k), pa.array(ts, pa.timestamp("us")), pa.array(v)],
                              schema=SOURCE)  # fmt: skip


def snapshot_of(node, context, source=SOURCE, rows=None):
    operator = operator_of(node, schema_of(node), [source])
    operator.open(context)
    operator.on_time(1)
    try:
        for checkpoint, batch in enumerate(rows or batches()):
            operator.on_batch(0, batch)
            kept = Kept()
            operator.on_barrier(checkpoint).write(kept)
    finally:
        operator.close()
    return kept


def read(node, kept, state="groups", key_groups=ALL, n_bytes=0):
    found = kept_in(node)[node.path].rows(state, kept, key_groups, n_bytes)
    return [row for batch in found for row in batch.to_pylist()]


def aggregate(window=None, **fields):
    source = StageInput(0, SOURCE)
    time = "" if window is None or isinstance(window, Count) else "ts"
    return StreamAggregate(source, (Column("k"),), AGGS, window=window, time=time, path="agg",
                           **fields)  # fmt: skip


def sums(of_window):
    """Count, sum and mean by key and whatever bounds `of_window` gives a time."""
    found = defaultdict(list)
    for k, ts, v in ROWS:
        for bounds in of_window(ts):
            found[k, *bounds].append(v)
    return {key: (len(v), sum(v), sum(v) / len(v)) for key, v in found.items()}


def at(value):
    return round(value.timestamp() * 1e6) if hasattr(value, "timestamp") else value


def told(rows, *bounds):
    return {
        (row["k"], *(at(row[name].replace(tzinfo=UTC)) for name in bounds)): (
            row["n"], row["total"], pytest.approx(row["mean"]),
        )
        for row in rows
    }  # fmt: skip


S = 1_000_000
BOUNDS = ("window_start", "window_end")


@pytest.mark.parametrize("room", ROOMS)
def test_running_aggregates(room):
    node = aggregate()
    with below(room) as context:
        kept = snapshot_of(node, context)
    assert sums(lambda _: [()]) == told(read(node, kept))
    parts = [read(node, kept, key_groups=some) for some in (range(9_000), range(9_000, 1 << 15))]
    assert sums(lambda _: [()]) == told(parts[0] + parts[1])
    assert sums(lambda _: [()]) == told(read(node, kept, n_bytes=1 << 30))


@pytest.mark.parametrize("room", ROOMS)
def test_tumbling_windows(room):
    node = aggregate(Tumbling(5 * S))
    with below(room) as context:
        kept = snapshot_of(node, context)
    wanted = sums(lambda ts: [(ts // (5 * S) * 5 * S, ts // (5 * S) * 5 * S + 5 * S)])
    assert wanted == told(read(node, kept), *BOUNDS)


@pytest.mark.parametrize("room", ROOMS)
def test_sliding_windows_are_told_one_by_one(room):
    node = aggregate(Sliding(6 * S, 2 * S))
    with below(room) as context:
        kept = snapshot_of(node, context)
    of = lambda ts: [  # noqa: E731
        (end - 6 * S, end) for end in range((ts // (2 * S) + 1) * 2 * S, ts + 6 * S + 1, 2 * S)
    ]
    assert sums(of) == told(read(node, kept), *BOUNDS)


@pytest.mark.parametrize("room", ROOMS)
def test_sessions(room):
    node = aggregate(Session(300_000))
    with below(room) as context:
        kept = snapshot_of(node, context)
    wanted, by_key = {}, defaultdict(list)
    for k, ts, v in ROWS:
        by_key[k].append((ts, v))
    for k, found in by_key.items():
        part = []
        for ts, v in sorted(found):
            if part and ts - part[-1][0] > 300_000:
                wanted[k, part[0][0], part[-1][0] + 300_000] = [v for _, v in part]
                part = []
            part.append((ts, v))
        wanted[k, part[0][0], part[-1][0] + 300_000] = [v for _, v in part]
    expected = {key: (len(v), sum(v), sum(v) / len(v)) for key, v in wanted.items()}
    assert expected == told(read(node, kept), *BOUNDS)


def test_count_windows_have_what_is_not_full():
    node = aggregate(Count(7))
    kept = snapshot_of(node, Context())
    by_key = defaultdict(list)
    for k, _, v in ROWS:
        by_key[k].append(v)
    wanted = {k: v[len(v) // 7 * 7 :] for k, v in by_key.items() if len(v) % 7}
    assert {r["k"]: (r["n"], r["total"]) for r in read(node, kept)} == {
        k: (len(v), sum(v)) for k, v in wanted.items()
    }


@pytest.mark.parametrize("room", ROOMS)
def test_top_n_has_its_rows_with_ranks(room):
    by = (SortKey(Column("v"), descending=True),)
    node = TopN(StageInput(0, SOURCE), (Column("k"),), by, 2, rank="place", kinds=True, path="agg")
    with below(room) as context:
        kept = snapshot_of(node, context)
    found = defaultdict(list)
    for row in read(node, kept, "rows"):
        found[row["k"]].append((row["place"], row["v"]))
    by_key = defaultdict(list)
    for k, _, v in ROWS:
        by_key[k].append(v)
    assert {k: sorted(v) for k, v in found.items()} == {
        k: list(enumerate(sorted(v, reverse=True)[:2], 1)) for k, v in by_key.items()
    }


@pytest.mark.parametrize("room", ROOMS)
def test_deduplicate_has_keys_or_rows(room):
    first = Deduplicate(StageInput(0, SOURCE), (Column("k"),), path="agg")
    last = Deduplicate(StageInput(0, SOURCE), (Column("k"),), keep="last", kinds=True, path="agg")
    with below(room) as context:
        keys = snapshot_of(first, context)
    assert Counter(r["k"] for r in read(first, keys, "keys")) == Counter({k for k, *_ in ROWS})
    with below(room) as context:
        rows = snapshot_of(last, context)
    assert {r["k"]: r["v"] for r in read(last, rows, "rows")} == {k: v for k, _, v in ROWS}


class Sums(Process):
    """Each kind of state."""

    def on_rows(self, ctx, key, rows):
        for row in rows.to_pylist():
            ctx.state("last").put(row["v"])
            ctx.state("all").append(row["v"])
            ctx.state("by").put(row["v"] % 3, row["v"])
        return []


@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
def test_states_of_a_function_are_typed(engine, tmp_path):
    states = [
        StateField("last", "value", pa.int64()), StateField("all", "list", pa.int64()),
        StateField("by", "map", pa.int64(), pa.int64()),
    ]  # fmt: skip
    node = node_of(Sums(), states)
    rows = [
        pa.RecordBatch.from_pylist(
            [{"k": k, "at": None, "v": v} for k, _, v in ROWS[:50]], PROCESSED
        )
    ]
    context = Context(folder=tmp_path / "state", state=engine)
    kept = snapshot_of(node, context, PROCESSED, rows)
    by_key = defaultdict(list)
    for k, _, v in ROWS[:50]:
        by_key[k].append(v)
    path = node.path
    assert {r["k"]: r["last"] for r in read(node, kept, "last")} == {
        k: v[-1] for k, v in by_key.items()
    }
    assert {r["k"]: r["all"] for r in read(node, kept, "all")} == by_key
    assert {r["k"]: dict(r["by"]) for r in read(node, kept, "by")} == {
        k: {v % 3: v for v in vs} for k, vs in by_key.items()
    }
    assert [s.schema.field(s.name).type for s in kept_in(node)[path].states] == [
        pa.int64(), pa.large_list(pa.int64()), pa.map_(pa.int64(), pa.int64()),
    ]  # fmt: skip


class Aging(Sums):
    """One that lives for some time beside them."""

    def on_rows(self, ctx, key, rows):
        ctx.state("aged").put(rows.num_rows)
        return super().on_rows(ctx, key, rows)


class Counted(Kept):
    """A snapshot that says what was asked of it, but for facts."""

    def __init__(self, kept):
        super().__init__(kept.files)
        self.asked = []

    def read(self, name):
        self.asked += [] if name.endswith(".json") else [name]
        return super().read(name)

    def fetch(self, name, to, *, fixed=False):
        self.asked.append(name)
        super().fetch(name, to)


def of_keys(node, snapshot, names, state="groups"):
    found = kept_in(node)[node.path]
    keys = keys_as(found.state(state), pa.table({"k": names}))
    return [row for b in found.rows_of_keys(state, snapshot, keys) for row in b.to_pylist()]


def by_text(rows):
    return sorted(rows, key=repr)


BY_V = (SortKey(Column("v"), descending=True),)
STEPS = {
    "running": aggregate(),
    "tumbling": aggregate(Tumbling(5 * S)),
    "sliding": aggregate(Sliding(6 * S, 2 * S)),
    "sessions": aggregate(Session(300_000)),
    "counted": aggregate(Count(7)),
    "early": aggregate(Tumbling(5 * S), trigger=Trigger(count=9), kinds=True),
    "top": TopN(StageInput(0, SOURCE), (Column("k"),), BY_V, 2, rank="r", kinds=True, path="agg"),
    "first": Deduplicate(StageInput(0, SOURCE), (Column("k"),), path="agg"),
    "last": Deduplicate(StageInput(0, SOURCE), (Column("k"),), keep="last", kinds=True, path="agg"),
}


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("step", STEPS)
def test_some_keys_alone(step, room, tmp_path, monkeypatch):
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)  # files of what changed, also of little state
    node = STEPS[step]
    with below(room) as context:
        kept = Counted(snapshot_of(node, context))
    (state,) = kept_in(node)["agg"].states
    wanted = [row for row in read(node, kept, state.name) if row["k"] in ("k3", "k5", "k36")]
    snapshot, names = opened(kept, tmp_path), ["k3", "nobody", "k36", "k5", "k3"]
    assert by_text(of_keys(node, snapshot, names, state.name)) == by_text(wanted)
    kept.asked.clear()
    assert of_keys(node, snapshot, ["k3"], state.name) == [r for r in wanted if r["k"] == "k3"]
    assert of_keys(node, snapshot, ["nobody"], state.name) == []
    assert kept.asked == []  # all files are held
    assert all(0 <= group < 1 << 15 for group in key_groups_of(pa.record_batch({"k": names})))


def test_the_row_of_a_step_without_keys_is_found_by_no_key(tmp_path):
    node = StreamAggregate(StageInput(0, SOURCE), (), AGGS, path="agg")
    snapshot, found = opened(snapshot_of(node, Context()), tmp_path), kept_in(node)["agg"]
    no_columns = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    assert [r["n"] for b in found.rows("groups", snapshot, ALL) for r in b.to_pylist()] == [3000]
    rows = found.rows_of_keys("groups", snapshot, no_columns)
    assert [r["n"] for b in rows for r in b.to_pylist()] == [3000]


@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
def test_keys_of_a_function_are_read_without_the_others(engine, tmp_path, monkeypatch):
    states = [
        StateField("last", "value", pa.int64()), StateField("all", "list", pa.int64()),
        StateField("by", "map", pa.int64(), pa.int64()),
        StateField("aged", "value", pa.int64(), ttl_us=1_000_000),
    ]  # fmt: skip
    node = node_of(Aging(), states)
    rows = [
        pa.RecordBatch.from_pylist(
            [{"k": k, "at": None, "v": v} for k, _, v in ROWS[begin : begin + 500]], PROCESSED
        )
        for begin in range(0, len(ROWS), 500)
    ]
    context = Context(folder=tmp_path / "state", state=engine)
    kept = Counted(snapshot_of(node, context, PROCESSED, rows))
    scanned = []
    scan = RocksTable.scan
    monkeypatch.setattr(RocksTable, "scan", lambda *of: scanned.append(of) or scan(*of))
    snapshot, wanted = opened(kept, tmp_path / "opened"), {}
    for name in ("last", "all", "by", "aged"):
        wanted[name] = [row for row in read(node, kept, name) if row["k"] in ("k3", "k36")]
    scanned.clear()
    for turn in range(2):
        kept.asked.clear()
        for name, rows_of in wanted.items():
            found = of_keys(node, snapshot, ["k36", "nobody", "k3"], name)
            assert by_text(found) == by_text(rows_of)
            assert len(found) == 2
        assert bool(kept.asked) == (turn == 0)
    assert not scanned


def test_only_files_that_are_new_are_opened_for_the_next_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(deltas, "FEW_BYTES", 0)
    node = aggregate()
    operator, kept = operator_of(node, schema_of(node), [SOURCE]), []
    operator.open(Context(folder=tmp_path / "state"))
    for checkpoint, batch in enumerate(batches(1000)):
        operator.on_batch(0, batch.slice(0, 1000 if checkpoint == 0 else 5))
        kept.append(Counted(Kept()))
        operator.on_barrier(checkpoint).write(kept[-1])
    operator.close()
    before, counts = None, []
    for each in kept:
        contents = {name: name for name in each.names() if "groups-" in name}
        before = opened(each, tmp_path / "opened", contents, before)
        counts.append({row["k"]: row["n"] for row in of_keys(node, before, ["k3", "k7"])})
    assert counts == [{"k3": 27, "k7": 27}, {"k3": 28, "k7": 27}, {"k3": 29, "k7": 27}]
    files = [[name for name in each.names() if "groups-" in name] for each in kept]
    assert [len(each) for each in files] == [1, 2, 3]
    assert [each.asked for each in kept] == [
        files[0], sorted({*files[1]} - {*files[0]}), sorted({*files[2]} - {*files[1]})
    ]  # fmt: skip


def test_windows_are_made_some_at_a_time(monkeypatch):
    made, portions = [], time_windows._portions

    def counted(*what):
        for each in portions(*what):
            made.append(each)
            yield each

    monkeypatch.setattr(time_windows, "_portions", counted)
    monkeypatch.setattr(time_windows, "_PAIRS", 100)
    node = aggregate(Sliding(6 * S, 2 * S))
    rows = kept_in(node)["agg"].rows("groups", snapshot_of(node, Context()), ALL)
    made.clear()
    assert next(rows).num_rows
    assert len(made) == 1
    assert sum(batch.num_rows for batch in rows)
    assert len(made) > 5


@pytest.mark.parametrize("keep", ["first", "last"])
@pytest.mark.parametrize("room", ROOMS)
def test_what_has_outlived_its_time_is_not_there(keep, room, tmp_path):
    more = {"keep": "last", "kinds": True} if keep == "last" else {}
    node = Deduplicate(StageInput(0, SOURCE), (Column("k"),), ttl_us=80, path="agg", **more)
    operator, kept = operator_of(node, schema_of(node), [SOURCE]), Kept()
    with below(room) as context:
        operator.open(context)
        for now, key in ((100, "old"), (110, "new"), (179, ""), (185, "")):  # 6: too soon to sweep
            operator.on_time(now)
            if key:
                operator.on_batch(0, pa.RecordBatch.from_pylist([{"k": key}], SOURCE))
        operator.on_barrier(0).write(kept)
        operator.close()
    (state,) = kept_in(node)["agg"].states
    assert [row["k"] for row in read(node, kept, state.name)] == ["new"]
    found = of_keys(node, opened(kept, tmp_path), ["old", "new"], state.name)
    assert [row["k"] for row in found] == ["new"]


def test_what_is_wrong_is_said():
    found = kept_in(aggregate())["agg"]
    with pytest.raises(NotFoundError, match="agg keeps no state 'x'; available states: groups"):
        found.state("x")
    with pytest.raises(DataError, match="is kept by k: string"):
        keys_as(found.states[0], pa.table({"other": [1]}))
    assert KIND not in found.states[0].schema.names
    assert pieces(range(10), 0) == [range(10)]
