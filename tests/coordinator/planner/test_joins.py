"""Which joins are hashed, broadcast or gathered, and what is known of their rows afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import PlanError
from fabric.io.sources import enumerate_splits, memory
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Call, Column
from fabric.plan.nodes import Aggregate, Exchange, Join, Plan, Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split

A, B, C, K = (Column(name) for name in "abck")
MB = 1 << 20
I64 = pa.int64()
COUNT = (Alias(Agg("count", None), "n"),)


def sized(n_bytes: int, n_columns: int = 2) -> list[Split]:
    rows = n_bytes // (8 * n_columns) // 4
    return [Split("x", n_rows=rows, n_bytes=n_bytes // 4)] * 4


def plan(root: Any, parallelism: int = 4, **splits: list[Split]) -> StageGraph:
    return plan_stages(check(Plan(root)), splits, parallelism)


def kinds(graph: StageGraph) -> list[tuple[str, str]]:
    return [(edge.path, edge.kind) for edge in graph.edges if not edge.is_result]


LARGE = {"l": sized(800 * MB), "r": sized(800 * MB)}


def sides(p: SimpleNamespace) -> tuple[Scan, Scan]:
    return p.table("l", a=I64, b=I64), p.table("r", a=I64, c=I64)


@pytest.mark.parametrize(
    ("how", "left", "right", "expected"),
    [
        ("right", 1, 800, [("j/left", "broadcast")]),
        ("right", 800, 1, [("j/left", "hash"), ("j/right", "hash")]),
        ("full", 800, 1, [("j/left", "hash"), ("j/right", "hash")]),
        ("full", 1, 800, [("j/left", "hash"), ("j/right", "hash")]),
        ("left", 1, 800, [("j/left", "hash"), ("j/right", "hash")]),
    ],
)
def test_only_sides_that_keep_rows_single_are_broadcast(
    p: SimpleNamespace, how: Any, left: int, right: int, expected: list[Any]
) -> None:
    graph = plan(
        Join(*sides(p), (A,), (A,), how, path="j"), l=sized(left * MB), r=sized(right * MB)
    )
    assert kinds(graph) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", ["j/left"]), ("left", ["j/right"]), ("right", ["j/left"]), ("semi", ["j/right"]),
        ("anti", ["j/right"]), ("full", ["j/left", "j/right"]),
    ],
)  # fmt: skip
def test_without_keys_the_smaller_side_that_may_be_is_broadcast(
    p: SimpleNamespace, how: Any, expected: list[str]
) -> None:
    join = Join(*sides(p), (), (), how, condition=p.call("lt", "b", "c"), path="j")
    graph = plan(join, l=sized(200 * MB), r=sized(800 * MB))
    kind = "gather" if how == "full" else "broadcast"
    assert kinds(graph) == [(path, kind) for path in expected]


def test_a_cross_join_of_unknown_sizes_broadcasts_the_right_side(p: SimpleNamespace) -> None:
    left, right = sides(p)
    graph = plan(Join(left, right, (), (), "cross", path="j"), l=[Split("x")] * 4, r=[Split("y")])
    assert kinds(graph) == [("j/right", "broadcast")]
    one = plan(Join(left, right, (), (), "cross"), parallelism=1, **LARGE)
    assert kinds(one) == []


@pytest.mark.parametrize("how", ["inner", "right", "cross"])
def test_an_explicit_broadcast_of_the_left_side(p: SimpleNamespace, how: Any) -> None:
    left, right = sides(p)
    keys = () if how == "cross" else (A,)
    sent = Exchange(left, "broadcast", path="mine")
    assert kinds(plan(Join(sent, right, keys, keys, how), **LARGE)) == [("mine", "broadcast")]


@pytest.mark.parametrize(
    ("how", "side", "words"),
    [
        ("left", "left", "of a left join the right side may"),
        ("semi", "left", "of a semi join the right side may"),
        ("right", "right", "of a right join the left side may"),
        ("full", "left", "of a full join no side may"),
        ("full", "right", "of a full join no side may"),
    ],
)
def test_a_broadcast_that_would_repeat_rows_is_refused(
    p: SimpleNamespace, how: Any, side: str, words: str
) -> None:
    join = Join(*sides(p), (A,), (A,), how)
    join = replace(join, **{side: Exchange(getattr(join, side), "broadcast", path="mine")})
    with pytest.raises(PlanError, match=rf"{words} be broadcast.*node mine"):
        plan(join, **LARGE)


def test_both_sides_broadcast_are_refused(p: SimpleNamespace) -> None:
    left, right = (Exchange(side, "broadcast") for side in sides(p))
    with pytest.raises(PlanError, match="may be broadcast"):
        plan(Join(left, right, (A,), (A,)), **LARGE)


def test_strategies_that_can_not_be_are_refused(p: SimpleNamespace) -> None:
    full = Join(*sides(p), (A,), (A,), "full", strategy="broadcast", path="j")
    with pytest.raises(PlanError, match=r"a full join can't broadcast.*node j"):
        plan(full, **LARGE)
    bare = Join(*sides(p), (), (), strategy="hash", condition=p.call("lt", "b", "c"), path="j")
    with pytest.raises(PlanError, match=r"without keys can't be hashed.*node j"):
        plan(bare, **LARGE)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_merged_keys_stay_known(p: SimpleNamespace, how: Any) -> None:
    join = Join(*sides(p), (A,), (A,), how, "_r", "hash")
    graph = plan(Aggregate(join, (A,), COUNT, path="g"), **LARGE)
    assert not any(path.startswith("g/") for path, _ in kinds(graph))


@pytest.mark.parametrize(
    ("how", "key", "again"),
    [
        ("inner", "a", False), ("left", "a", False), ("right", "a", True), ("full", "a", True),
        ("left", "k", True), ("right", "k", False), ("full", "k", True),
    ],
)  # fmt: skip
def test_keys_of_a_side_that_may_be_missing_are_not_trusted(
    p: SimpleNamespace, how: Any, key: str, again: bool
) -> None:
    left, right = p.table("l", a=I64, b=I64), p.table("r", k=I64, c=I64)
    join = Join(left, right, (A,), (K,), how, strategy="hash")
    graph = plan(Aggregate(join, (Column(key),), COUNT, path="g"), **LARGE)
    assert any(path.startswith("g/") for path, _ in kinds(graph)) == again


def test_a_broadcast_left_side_leaves_the_right_partitions_known(p: SimpleNamespace) -> None:
    left, right = p.table("l", a=I64, b=I64), p.table("r", b=I64, k=I64)
    sent = Exchange(right, "hash", ("k",), 3, path="e")
    for how in ("inner", "right"):
        join = Join(Exchange(left, "broadcast"), sent, (A,), (K,), how)
        graph = plan(Aggregate(join, (K,), COUNT, path="g"), **LARGE)
        assert not any(path.startswith("g/") for path, _ in kinds(graph))
        other = plan(Aggregate(join, (Column("b_right"),), COUNT, path="g"), **LARGE)
        assert any(path.startswith("g/") for path, _ in kinds(other))


@dataclass(frozen=True)
class Case:
    """A join of two sides with `left` and `right` as keys; `grouped` counts rows by a column.

    Counts are wrong when rows are not where the planner thinks they are.
    """

    left: list[int | None]
    right: list[int | None]
    how: Any
    strategy: Any
    keyed: bool
    conditional: bool
    right_key: str
    grouped: str


KEYS = st.lists(st.none() | st.integers(0, 3), max_size=8)
CASES = st.builds(
    Case,
    KEYS,
    KEYS,
    st.sampled_from(["inner", "left", "right", "full", "semi", "anti", "cross"]),
    st.sampled_from(["auto", "broadcast", "hash"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from("kj"),
    st.sampled_from(["", "k", "j"]),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=CASES, parallelism=st.integers(2, 3))
def test_several_tasks_give_the_rows_of_one(runner: Any, case: Case, parallelism: int) -> None:
    scans = [
        _scan("l", {"k": case.left, "v": range(len(case.left))}),
        _scan("r", {case.right_key: case.right, "w": range(len(case.right))}),
    ]
    root: Any = _join(case, *scans)
    if case.grouped in schema_of(root).names:
        root = Aggregate(root, (Column(case.grouped),), COUNT)
    splits = {scan.path: enumerate_splits(scan.source, parallelism) for scan in scans}
    wide, narrow = (plan_stages(check(Plan(root)), splits, n) for n in (parallelism, 1))
    assert runner.rows(runner.run(wide)) == runner.rows(runner.run(narrow))


def _scan(name: str, columns: dict[str, Any]) -> Scan:
    table = pa.table({key: pa.array(values, I64) for key, values in columns.items()})
    return Scan(memory.register(table), table.schema, path=name)


def _join(case: Case, left: Scan, right: Scan) -> Join:
    conditional = case.conditional and case.how != "cross"
    keyed = (case.keyed or not conditional) and case.how != "cross"
    free = keyed and not (case.how == "full" and case.strategy == "broadcast")
    return Join(
        left,
        right,
        (K,) if keyed else (),
        (Column(case.right_key),) if keyed else (),
        case.how,
        strategy=case.strategy if free else "auto",
        condition=Call("lt", (Column("v"), Column("w"))) if conditional else None,
    )


def likely(**rows: float) -> Callable[[Any], float | None]:
    """Guesses by the path of a node."""
    return lambda node: rows.get(node.path)


@pytest.mark.parametrize(
    ("left", "right", "rows", "expected"),
    [
        (400, 300, {"r": 1000}, [("j/right", "broadcast")]),
        (300, 400, {"l": 1000}, [("j/left", "broadcast")]),
        (400, 300, {}, [("j/left", "hash"), ("j/right", "hash")]),
        (400, 300, {"r": 8e5}, [("j/left", "hash"), ("j/right", "hash")]),  # no margin is left
        (900, 800, {"r": 1000}, [("j/left", "hash"), ("j/right", "hash")]),  # too bad if wrong
        (800, 1, {"r": 1e9}, [("j/right", "broadcast")]),  # the sources have no more
    ],
)
def test_a_side_that_is_likely_small_is_broadcast(
    p: SimpleNamespace, left: int, right: int, rows: dict[str, float], expected: Any
) -> None:
    one, other = sides(p)
    splits = {"l": sized(left * MB), "r": sized(right * MB)}
    join = check(Plan(Join(one, other, (A,), (A,), path="j")))
    graph = plan_stages(join, splits, 4, likely_rows=likely(**rows))
    assert kinds(graph) == expected


def test_the_left_side_of_a_semi_join_stays_however_small(p: SimpleNamespace) -> None:
    one, other = sides(p)
    join = check(Plan(Join(one, other, (A,), (A,), "semi", path="j")))
    splits = {"l": sized(1 * MB), "r": sized(400 * MB)}
    graph = plan_stages(join, splits, 4, likely_rows=likely(l=10))
    assert kinds(graph) == [("j/left", "hash"), ("j/right", "hash")]
