"""Generated plans: with a rule and without it, the rows are the same and so are the columns.

Each rule runs alone over plans of the full width, then all of them. Oracle: the plan as written, in
one fragment. Facts and an evaluator are given, as the coordinator does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.coordinator.optimizer import optimizer
from fabric.coordinator.optimizer.aggregate_from_statistics import aggregate_from_statistics
from fabric.coordinator.optimizer.expressions import named
from fabric.coordinator.optimizer.filter_pushdown import (
    filter_below_select,
    filter_below_with_columns,
)
from fabric.coordinator.optimizer.join_order import reorder_joins, smaller_side_right
from fabric.coordinator.optimizer.limit_pushdown import limit_into_scan
from fabric.coordinator.optimizer.passes import Passes, name_of, unnoted
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.coordinator.optimizer.redundancy import drop_sort, share_subplans
from fabric.coordinator.optimizer.simplification import fold_constants
from fabric.coordinator.optimizer.trace import Fired
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.submit.constants import constant_value
from fabric.io.sources import enumerate_splits, memory
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Agg, Alias, Call, Case, Column, Expr, IsIn, Literal, Over, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    JoinHow,
    Limit,
    Node,
    Plan,
    Scan,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.statistics import ColumnFacts, SourceFacts, Statistics
from fabric.plan.walk import walk
from tests.support.sampled import SOAK

K, V, S = Column("k"), Column("v"), Column("s")
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string(), "l": pa.list_(pa.int64())})
NAMES = ("k", "v", "s", "l")


def lit(value: int) -> Literal:
    return Literal(value, pa.int64())


def call(function: str, *args: Expr) -> Call:
    return Call(function, args)


def base(node: Node, **columns: Expr) -> Node:
    """Back to the four columns that every step begins with."""
    return Select(node, tuple(named(columns.get(name, Column(name)), name) for name in NAMES))


TRUE, NULL = Literal(True, pa.bool_()), Literal(None, pa.bool_())
CONDITIONS: list[Expr] = [
    call("gt", K, lit(1)),
    call("is_not_null", S),
    call("lt", V, lit(4)),
    call("eq", K, K),
    call("ne", K, V),
    call("gt", call("modulo", V, lit(3)), lit(0)),
    call("is_null", V),
    call("eq", call("coalesce", K, lit(7)), lit(7)),
    call("lt", K, call("multiply", lit(2), lit(2))),
    IsIn(V, (lit(1), lit(3))),
    call("starts_with", S, Literal("a", pa.string())),
    TRUE,
    NULL,
]


@st.composite
def conditions(draw: st.DrawFn) -> Expr:
    """One of the above, or some joined."""
    one = st.sampled_from(CONDITIONS)
    match draw(st.sampled_from(("one", "one", "and", "or", "not", "factor"))):
        case "one":
            return draw(one)
        case "not":
            return call("not", draw(one))
        case "factor":
            common = draw(one)
            sides = (call("and", common, draw(one)), call("and", draw(one), common))
            return call("or", *sides)
        case function:
            return call(function, draw(one), draw(one))


def windowed(node: Node) -> Node:
    over = Over(Agg("sum", V), (K,), ())
    return base(Window(node, (Alias(over, "t"),)), v=Column("t"))


def joined(
    node: Node,
    other: Node,
    how: JoinHow,
    condition: Expr | None,
    *,
    keys: bool,
    rejected: Expr | None = None,
) -> Node:
    """Columns of the right side are called ..._r, but for a merged key."""
    on = (K,) if keys else ()
    found: Node = Join(node, other, on, on, how, "_r", condition=condition)
    if rejected is not None and how not in ("semi", "anti"):
        found = Filter(found, rejected)
    return found if how in ("semi", "anti") else base(found, v=call("coalesce", Column("v_r"), V))


REJECTED = (call("gt", Column("v_r"), lit(1)), call("is_not_null", V), call("is_null", V))
ACROSS: list[Expr] = [
    call("eq", V, Column("k_r")),
    call(
        "or",
        call("and", call("eq", V, lit(1)), call("lt", Column("v_r"), lit(3))),
        call("and", call("eq", V, lit(2)), call("gt", Column("v_r"), lit(2))),
    ),
    call("and", call("lt", V, lit(3)), call("is_not_null", Column("s_r"))),
]
JOINED: list[Expr | None] = [
    None,
    call("gt", Column("v_r"), lit(1)),
    call("lt", V, lit(3)),
    call("eq", V, Column("v_r")),
    call("and", call("eq", V, Column("k_r")), call("le", V, Column("v_r"))),
]


def chain(node: Node, other: Node) -> Node:
    """Four relations, the large one twice in a cross join first, which reordering avoids."""
    middle, top = Select(other, (Alias(K, "k1"), Alias(V, "v1"))), Distinct(other)
    wide = Join(Join(node, other, (), (), "cross", "_x"), middle, (K,), (Column("k1"),))
    found = Join(wide, top, (Column("v1"), Column("v_x")), (V, K), suffix="_t")
    return base(Filter(found, call("eq", Column("k_x"), Column("v1"))))


@st.composite
def steps(draw: st.DrawFn, node: Node, other: Node) -> Node:
    """`node` and one step more."""
    kind = draw(st.sampled_from(KINDS))
    match kind:
        case "filter" | "filter again":
            return Filter(node, draw(conditions()))
        case "join":
            how: JoinHow = draw(st.sampled_from(("inner", "left", "right", "full", "semi", "anti")))
            condition = draw(st.sampled_from([c for c in JOINED if "k_r" not in str(c)]))
            rejected = draw(st.sampled_from((None, *REJECTED)))
            return joined(node, other, how, condition, keys=True, rejected=rejected)
        case "cross":
            few = Limit(Sort(other, tuple(map(SortKey, (K, V, S)))), 2)
            crossed = Join(node, few, (), (), "cross", "_r")
            return base(Filter(crossed, draw(st.sampled_from(ACROSS))), v=Column("v_r"))
        case "theta":
            how = draw(st.sampled_from(("inner", "left", "semi", "anti")))
            return joined(node, other, how, draw(st.sampled_from(JOINED[3:])), keys=False)
        case "chain":
            return chain(node, other)
        case "stairs":
            one = Join(node, base(other), (K,), (K,), suffix="_1")
            two = Join(
                one,
                Distinct(Select(other, (Alias(V, "v2"), Alias(K, "k2")))),
                (V,),
                (Column("v2"),),
            )
            return base(Filter(two, draw(conditions())))
        case "union":
            return Union((node, Filter(node, draw(conditions()))))
        case "same twice":
            again = Aggregate(Filter(node, CONDITIONS[0]), (K,), (Alias(Agg("max", V), "m"),))
            copy = Aggregate(Filter(node, CONDITIONS[0]), (K,), (Alias(Agg("max", V), "m"),))
            return base(
                Join(Join(node, again, (K,), (K,)), copy, (K,), (K,), "left"), v=Column("m")
            )
        case "top":
            keys = tuple(SortKey(Column(name), name == "v") for name in ("v", "k", "s"))
            ordered = draw(st.sampled_from((Sort(node, keys), base(Sort(node, keys)))))
            return Limit(ordered, draw(st.integers(0, 5)), draw(st.integers(0, 2)))
        case _:
            return PLAIN[kind](node)


PLAIN: dict[str, Callable[[Node], Node]] = {
    "columns": lambda n: base(
        WithColumns(WithColumns(n, (Alias(call("add", V, lit(2)), "x"),)), (Alias(K, "y"),)),
        v=Column("x"),
        k=Column("y"),
    ),
    "replace": lambda n: WithColumns(n, (Alias(call("concat", S, S), "s"),), True),
    "case": lambda n: base(n, k=Case(((call("gt", K, lit(2)), V),), K)),
    "sum": lambda n: base(
        WithColumns(
            Aggregate(n, (K, S), (Alias(Agg("sum", V), "v"), Alias(Agg("count", None), "n"))),
            (Alias(Literal(None, pa.list_(pa.int64())), "l"),),
        )
    ),
    "whole": lambda n: base(
        WithColumns(
            Aggregate(n, (), (Alias(Agg("count", V), "v"), Alias(Agg("count", None), "k"))),
            (
                Alias(Literal("a", pa.string()), "s"),
                Alias(Literal(None, pa.list_(pa.int64())), "l"),
            ),
        )
    ),
    "window": windowed,
    "explode": lambda n: base(
        Explode(WithColumns(n, (Alias(Column("l"), "e"),)), "e", position="i"), v=Column("e")
    ),
    "explode outer": lambda n: base(
        Explode(WithColumns(n, (Alias(Column("l"), "e"),)), "e", True), v=Column("e")
    ),
    "all": lambda n: Limit(Limit(n, 900), 800),
    "count": lambda n: base(
        WithColumns(
            Aggregate(n, (), (Alias(Agg("min", V), "v"), Alias(Agg("count", K), "k"))),
            (
                Alias(Literal("a", pa.string()), "s"),
                Alias(Literal(None, pa.list_(pa.int64())), "l"),
            ),
        )
    ),
    "same": lambda n: base(base(n)),
    "distinct": lambda n: Distinct(Distinct(n)),
    "sort": lambda n: Sort(n, (SortKey(S),)),
}
KINDS = (
    "filter", "filter again", "stairs", "join", "cross", "theta", "chain", "union", "same twice",
    "top", *PLAIN,
)  # fmt: skip
VALUES = st.none() | st.integers(0, 5)
ROWS = st.lists(
    st.tuples(
        VALUES,
        VALUES,
        st.none() | st.sampled_from(["", "a", "B"]),
        st.none() | st.lists(st.integers(0, 3), max_size=2),
    ),
    max_size=8,
)


def scan(rows: list[Any], path: str) -> Scan:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)]
    return Scan(memory.register(pa.Table.from_arrays(arrays, schema=SCHEMA)), SCHEMA, path=path)


@st.composite
def plans(draw: st.DrawFn, rows: Any = ROWS) -> Plan:
    """Two tables and up to three steps, filtered at the end."""
    node: Node = scan(draw(rows), "facts")
    other = scan(draw(rows), "others")
    for _ in range(draw(st.integers(1, 3))):
        node = draw(steps(node, other))
    return check(Plan(Filter(node, draw(conditions()))))


def facts_of(plan: Plan) -> Statistics:
    """What footers would say."""
    return {node.path: _facts(node) for node in walk(plan.root) if isinstance(node, Scan)}


def _facts(node: Scan) -> SourceFacts:
    table = memory.table_of(node.source)
    columns = {}
    for name in ("k", "v"):
        ends = pc.min_max(table.column(name)).as_py()
        nulls = table.column(name).null_count
        columns[name] = ColumnFacts(n_nulls=nulls, least=ends["min"], most=ends["max"])
    return SourceFacts(n_rows=table.num_rows, exact=True, columns=columns)


def all_rules(plan: Plan) -> dict[str, Callable[[Node], Node]]:
    """Every rule by name, as a rewrite of a whole plan."""
    facts = facts_of(plan)
    small_left = {path: SourceFacts(n_rows=1000 if path == "others" else 1) for path in facts}
    large_left = {path: SourceFacts(n_rows=10 if path == "others" else 1000) for path in facts}
    local: dict[str, dict[type, tuple[Any, ...]]] = {}
    for rules in (optimizer.SIMPLIFY, optimizer.IMPLY, optimizer.PUSH, optimizer.INTO_SCAN):
        for kind, group in rules.items():
            for rule in group:
                local.setdefault(name_of(rule), {})[kind] = (rule,)
    local["fold_constants"] = dict.fromkeys(
        optimizer.SIMPLIFY, (partial(fold_constants, constant_value),)
    )
    local["aggregate_from_statistics"] = {Aggregate: (partial(aggregate_from_statistics, facts),)}
    found: dict[str, Callable[[Node], Node]] = {
        name: partial(_once if name == "imply_filters" else _settled, rules)
        for name, rules in local.items()
    }
    for whole in (prune_columns, drop_sort, limit_into_scan, share_subplans):
        found[whole.__name__] = partial(_whole, whole)
    found["reorder_joins"] = partial(_whole, partial(reorder_joins, large_left, ()))
    found["smaller_side_right"] = partial(_whole, partial(smaller_side_right, small_left, ()))
    return found


READY = (filter_below_select, filter_below_with_columns)


def ready(root: Node) -> Node:
    """Filters below the selects of `base`, so that they meet what other rules are about."""
    return _settled({Filter: READY}, root)


def _settled(rules: Any, root: Node) -> Node:
    return Passes(rules, []).until_settled(root)


def _once(rules: Any, root: Node) -> Node:
    return Passes(rules, []).once(root)


def _whole(rule: Any, root: Node) -> Node:
    found: Node = rule(root, unnoted)
    return found


def run(runner: SimpleNamespace, root: Node) -> list[str]:
    splits = {n.path: enumerate_splits(n.source, 1) for n in walk(root) if isinstance(n, Scan)}
    rows: list[str] = runner.rows(runner.run(plan_stages(Plan(root), splits, 1)))
    return rows


@settings(
    max_examples=80 if SOAK else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plan=plans())
def test_same_rows(runner: SimpleNamespace, plan: Plan) -> None:
    expected = run(runner, plan.root)
    begin = ready(plan.root)
    for name, rewritten in all_rules(plan).items():
        found = rewritten(begin)
        if found is not plan.root:
            assert (name, run(runner, found)) == (name, expected)
    done: list[Fired] = []
    best = optimizer.optimize(plan, facts_of(plan), evaluate=constant_value, fired=done)
    assert run(runner, best.root) == expected, [one.rule for one in done]
    again = decode(encode(best))  # other objects, of which nothing is remembered
    assert schema_of(again.root).equals(schema_of(plan.root))


def test_most_rules_fire_on_such_plans() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(plan=plans())
    def look(plan: Plan) -> None:
        begin = ready(plan.root)
        for name, rewritten in all_rules(plan).items():
            seen[name] += rewritten(begin) is not begin

    look()
    assert sum(n > 0 for n in seen.values()) >= 24


@settings(
    max_examples=25 if SOAK else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(facts=ROWS, others=ROWS)
@pytest.mark.parametrize("rule", ["reorder_joins", "imply_filters"])
def test_rules_of_long_chains(
    runner: SimpleNamespace, rule: str, facts: list[Any], others: list[Any]
) -> None:
    left, right = scan(facts, "facts"), scan(others, "others")
    crossed = Join(left, right, (), (), "cross", "_r")
    plans = {"reorder_joins": chain(left, right), "imply_filters": Filter(crossed, ACROSS[1])}
    plan = check(Plan(plans[rule]))
    found = all_rules(plan)[rule](plan.root)
    assert found is not plan.root
    assert run(runner, found) == run(runner, plan.root)


@pytest.mark.parametrize("how", ["left", "right", "full"])
def test_an_outer_join_keeps_its_lone_rows(runner: SimpleNamespace, how: JoinHow) -> None:
    left = scan([(1, 1, "a", None), (2, None, "b", None), (None, 4, "c", None)], "facts")
    right = scan([(2, 5, "x", None), (3, 6, "y", None)], "others")
    for condition in (call("is_null", V), call("gt", V, lit(4)), call("is_null", K)):
        plan = check(Plan(Filter(Join(left, right, (K,), (K,), how, "_r"), condition)))
        found = optimizer.optimize(plan, facts_of(plan))
        assert run(runner, found.root) == run(runner, plan.root)
