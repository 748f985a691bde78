"""Rows that every task holds whole, against dictionaries and lists, in all ways of the harness."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, ExpressionError, PlanError
from fabric.operators.chain import build_chain
from fabric.operators.contract import Context, Files
from fabric.operators.snapshots import key_groups
from fabric.operators.streams.process.broadcast import RULES, KeptBroadcast
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import KeyedProcess, StageInput, StateField
from fabric.plan.process import Process
from fabric.testing.operators import Kept, Rows, Until, check_operator, run_straight
from tests.support.processing import OUTPUT, batch_of, make, node_of, rows_of

RULE = pa.schema([("id", pa.string()), ("limit", pa.int64())])
GONE = Call("lt", (Column("limit"), Literal(0, pa.int64())))
COUNT = StateField("n", "value", pa.int64())
MIB = 1 << 20
RULE_ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(-3, 9) | st.none())
RULE_ROWS = st.lists(RULE_ROW, max_size=6)
ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 30), st.integers(-5, 9))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rules"), RULE_ROWS),
        st.tuples(st.just("rows"), st.lists(ROW, max_size=8)),
        st.tuples(st.just("time"), st.integers(0, 30)),
    ),
    min_size=1, max_size=7,
)  # fmt: skip


def rules_of(rows: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": id_, "limit": limit} for id_, limit in rows], RULE)


def steps_of(found: Any) -> list[Any]:
    made = {
        "rules": lambda rows: Rows(rules_of(rows), RULES),
        "rows": lambda rows: Rows(batch_of(rows)),
        "time": Until,
    }
    return [made[kind](what) for kind, what in found]


def broadcasting(process: Process, *, kind: str = "stream", **more: Any) -> KeyedProcess:
    rules = StageInput(1, more.pop("rules", RULE))
    more = {"broadcast_bytes": MIB, "states": [COUNT], **more}
    return node_of(process, broadcast=rules, broadcast_is=kind, **more)


class Judging(Process):
    """Counts rows of a key above its limit; says which rules there are, and what it was told."""

    def open(self) -> None:
        self.prepared = 0

    def on_broadcast(self, ctx: Any, rows: pa.RecordBatch) -> None:
        self.prepared = sum(rule["limit"] or 0 for rule in ctx.broadcast)

    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> Any:
        rules = list(ctx.broadcast)
        limits = {rule["id"]: rule["limit"] for rule in rules}
        n = ctx.state("n").get() or 0
        for row in rows.to_pylist():
            n += row["v"] > (limits.get(key) or 0)
            yield {"k": f"{key} {rules} {ctx.broadcast.version} {self.prepared}", "n": n}
        ctx.state("n").put(n)


def model(found: Any, *, keyed: bool) -> Counter[tuple[str, int]]:
    kept: dict[Any, int | None] = {}
    came: list[tuple[Any, int | None]] = []
    counts, out = Counter[Any](), Counter[tuple[str, int]]()
    version = 0
    for kind, what in found:
        if kind == "rules":
            version += len(what)
            came += what
            last = dict(what)  # of a batch only the last row of a key counts
            for id_, limit in last.items():
                kept[id_] = limit
                if limit is not None and limit < 0:
                    del kept[id_]
        if kind != "rows":
            continue
        pairs = list(kept.items()) if keyed else came
        rules = [{"id": id_, "limit": limit} for id_, limit in pairs]
        limits, prepared = dict(pairs), sum(limit or 0 for _, limit in pairs)
        for key, _, v in what:
            counts[key] += v > (limits.get(key) or 0)
            out[f"{key} {rules} {version} {prepared}", counts[key]] += 1
    return out


@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=25)
@given(found=STEPS)
def test_rules_in_all_ways(keyed: bool, found: Any) -> None:
    keys = {"broadcast_keys": ("id",), "broadcast_deleted": GONE} if keyed else {}
    node = broadcasting(Judging(), **keys)
    out = check_operator(
        make(node), steps_of(found), keys=["k"], n_inputs=2, broadcast=[RULES], tasks=(2, 3, 1)
    )
    assert Counter(rows_of(out.rows)) == model(found, keyed=keyed)


def test_rules_beside_state_in_files(tmp_path: Any) -> None:
    found = [
        ("rows", [("a", 1, 5)]), ("rules", [("a", 5), ("b", 1)]), ("rows", [("a", 2, 5)]),
        ("time", 9), ("rules", [("a", 1)]), ("rows", [("a", 3, 5), ("b", 3, 5)]),
    ]  # fmt: skip
    node = broadcasting(Judging(), broadcast_keys=("id",))
    out = check_operator(
        make(node, tmp_path), steps_of(found), keys=["k"], n_inputs=2, broadcast=[RULES]
    )
    assert Counter(rows_of(out.rows)) == model(found, keyed=True)


def stored(operator: Any, task: int, n_tasks: int) -> Kept:
    kept = Kept(key_groups=key_groups(task, n_tasks))
    operator.on_barrier(1).write(kept)
    return kept


def test_the_first_task_alone_stores_them() -> None:
    made = make(broadcasting(Judging(), broadcast_keys=("id",)))
    tasks = [made() for _ in range(3)]
    for number, task in enumerate(tasks):
        task.open(Context("judge", number, 3))
        task.on_batch(RULES, rules_of([("a", 3), ("b", 4), ("a", 5)]))
    parts = [stored(task, number, 3) for number, task in enumerate(tasks)]
    assert [any("broadcast" in name for name in part.names()) for part in parts] == [
        True, False, False,
    ]  # fmt: skip
    # a task that has ended still has them for the others; nothing of keys
    last = Kept(key_groups=key_groups(0, 3))
    tasks[0].on_final().write(last)
    assert {name.partition(".")[0] for name in last.names()} == {"broadcast"}
    assert tasks[1].on_final() == Files()
    wanted = range(key_groups(0, 3).stop)
    assert list(made().kept_rows("n", last, wanted)) == []
    again = made()
    again.open(Context("judge", 1, 2))
    again.restore([last, parts[1], parts[2]], key_groups(1, 2))
    (row,) = rows_of(again.on_batch(0, batch_of([("a", 1, 9)])))
    assert row == ("a [{'id': 'a', 'limit': 5}, {'id': 'b', 'limit': 4}] 3 9", 1)
    for task in [*tasks, again]:
        task.close()


def test_a_table_is_in_no_snapshot_and_is_read_anew() -> None:
    made = make(broadcasting(Judging(), kind="table"))
    first = made()
    first.open(Context("judge"))
    first.on_batch(RULES, rules_of([("a", 3)]))
    state = stored(first, 0, 1)
    assert not any("broadcast" in name for name in state.names())
    second = made()
    second.open(Context("judge"))
    second.restore([state], key_groups(0, 1))
    second.on_batch(RULES, rules_of([("a", 7)]))
    (row,) = rows_of(second.on_batch(0, batch_of([("a", 1, 9)])))
    assert row[0] == "a [{'id': 'a', 'limit': 7}] 1 7"
    assert first.on_final() == Files()
    first.close()
    second.close()


@settings(max_examples=60)
@given(parts=st.lists(RULE_ROWS, max_size=5), ids=st.permutations(["a", "b", "c", None, "z"]))
def test_a_row_is_found_by_its_key(parts: Any, ids: Any) -> None:
    rules = KeptBroadcast(RULE, ["id"], GONE)
    model: dict[Any, int | None] = {}
    for part in parts:
        rules.add(rules_of(part))
        for id_, limit in dict(part).items():
            model[id_] = limit
            if limit is not None and limit < 0:
                del model[id_]
        for id_ in ids[:2] * 2:  # found anew after each change, and kept until the next
            row = {"id": id_, "limit": model[id_]} if id_ in model else None
            assert rules.get(id_) == row
    assert len(rules) == len(model)
    assert rules.table.to_pylist() == list(rules) == [
        {"id": id_, "limit": limit} for id_, limit in model.items()
    ]  # fmt: skip
    for row in rules:
        row["limit"] = -1  # a function's own copy
    assert {row["id"]: row["limit"] for row in rules} == model


def test_keys_of_several_columns_and_encoded_ones() -> None:
    source = pa.schema([
        ("a", pa.dictionary(pa.int8(), pa.string())),
        ("b", pa.run_end_encoded(pa.int32(), pa.int64())), ("v", pa.string_view()),
    ])  # fmt: skip
    rules = KeptBroadcast(source, ["a", "b"])
    for a, b, v in (("x", 1, "one"), ("y", 1, "two"), ("x", 1, "three")):
        columns = [
            pa.array([a]).dictionary_encode().cast(source.field("a").type),
            pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([b], pa.int64())),
            pa.array([v], pa.string_view()),
        ]
        rules.add(pa.RecordBatch.from_arrays(columns, schema=source))
    assert rules.table.schema.types == [pa.string(), pa.int64(), pa.string()]
    assert rules.get("x", 1) == {"a": "x", "b": 1, "v": "three"}
    assert rules.get("x", 2) is None
    with pytest.raises(ExpressionError, match="is found by a, b; got 1 values"):
        rules.get("x")
    with pytest.raises(ExpressionError, match="the broadcast key b is int64, got 'x'"):
        rules.get("x", "x")
    with pytest.raises(ExpressionError, match=r'broadcast_keys="id"'):
        KeptBroadcast(RULE).get("a")


def test_more_than_the_budget_is_an_error() -> None:
    rules = KeptBroadcast(RULE, bytes_max=100)
    rules.add(rules_of([("a", 1)]))
    way = r"1000001 broadcast rows take \d+ bytes, and each task may hold 100; write: .*"
    big = pa.table({"id": ["a"] * 10**6, "limit": range(10**6)}).cast(RULE).to_batches()[0]
    with pytest.raises(
        DataError, match=way + r'broadcast_memory="\d+ MiB", or broadcast_keys="id"'
    ):
        rules.add(big)
    keyed = KeptBroadcast(RULE, ["id"], bytes_max=16_384)
    keyed.add(big)  # one row is left
    assert len(keyed) == 1
    assert keyed.version == 10**6
    with pytest.raises(DataError, match=r'1001 broadcast rows .*broadcast_memory="1 MiB"\)$'):
        keyed.add(rules_of([(str(n), n) for n in range(1000)]))


class Wrong(Process):
    def __init__(self, how: str) -> None:
        self.how = how

    def on_broadcast(self, ctx: Any, rows: pa.RecordBatch) -> Any:
        match self.how:
            case "state":
                ctx.state("n")
            case "timer":
                ctx.timers.set(1)
            case "timers":
                ctx.timers.set_many(rows, rows.column(0))
            case "side":
                ctx.side("odd", {"k": "a", "n": 1})
            case "rows":
                return {"k": "a", "n": 1}
            case "raises":
                raise ValueError("no rule")
        return None

    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> None:
        return None


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("state", "on_broadcast is called in every task, about no key, and has no states"),
        ("timer", "and has no timers"),
        ("timers", "and has no timers"),
        ("side", "and has no side outputs"),
        ("rows", "Wrong.on_broadcast returned rows, and is called in every task"),
        ("raises", "Wrong raised ValueError: no rule"),
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_what_a_call_about_rules_may_not_do(how: str, why: str, on_error: str) -> None:
    """It ends the job by any policy: else tasks would not hold the same."""
    node = broadcasting(Wrong(how), on_error=on_error, sides=(("odd", OUTPUT),))
    operator = make(node)()
    operator.open(Context("wrong"))
    with pytest.raises(ExpressionError, match=why):
        operator.on_batch(RULES, rules_of([("a", 1)]))
    operator.close()


class Asks(Process):
    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> Any:
        return {"k": str(len(ctx.broadcast)), "n": 0}


def test_what_needs_rules_says_so() -> None:
    with pytest.raises(ExpressionError, match=r"write: .process\(…, broadcast=rules\)"):
        run_straight(make(node_of(Asks())), [Rows(batch_of([("a", 1, 1)]))])
    operator = make(node_of(Judging(), [COUNT]))()
    with pytest.raises(PlanError, match=r"write: .process\(Judging\(…\), broadcast=rules"):
        operator.open(Context("judge"))
    operator.close()


def test_other_columns_are_refused_on_restore() -> None:
    before = make(broadcasting(Judging()))()
    before.open(Context("judge"))
    before.on_batch(RULES, rules_of([("a", 1)]))
    state = stored(before, 0, 1)
    wide = pa.schema([*RULE, ("why", pa.string())])
    after = make(broadcasting(Judging(), rules=wide))()
    after.open(Context("judge"))
    with pytest.raises(DataError, match=r"the columns id: string, limit: int64, and this plan has"):
        after.restore([state], key_groups(0, 1))
    before.close()
    after.close()


@pytest.mark.parametrize(("kind", "expected"), [("stream", [7, 9]), ("timed", [3, 9])])
def test_rules_without_event_time_hold_nobody_back(kind: str, expected: list[int]) -> None:
    chain = build_chain(broadcasting(Asks(), kind=kind, states=(), path="judge"))
    chain.on_watermark(1, 3)
    chain.on_watermark(0, 7)
    found = [chain.watermarks[""]]
    chain.on_watermark(1, 20)
    chain.on_watermark(0, 9)
    assert [*found, chain.watermarks[""]] == expected
    assert not chain.done
    chain.on_end(0)
    assert not chain.done  # as long as the rules have no end, neither has the task
    chain.on_end(1)
    assert chain.done
    assert set(chain.on_final()) == {"judge"}
    chain.close()
