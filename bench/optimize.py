"""How long the optimizer takes over a plan: all rules together, and each of them.

`20 nodes`: four sources, three joins, filters, computed columns, a window, groups, a sort and a
limit; `wide chain`: 1,000 columns added one by one. Fields ``ms_<rule>`` are what the five dearest
rules take by the profiler, which makes all about three times as slow. No peer takes such a plan.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine
from fabric.coordinator.optimizer import optimizer
from fabric.coordinator.submit.constants import constant_value
from fabric.plan.check import check
from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, Over, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Node,
    Plan,
    Scan,
    Select,
    Sort,
    Window,
    WithColumns,
)
from fabric.plan.sources import FileSource
from fabric.plan.statistics import SourceFacts
from fabric.plan.walk import walk

N_COLUMNS = 1000
N_SHOWN = 5
N_PROFILED = 20


def _scan(name: str, n_rows: int, *columns: str) -> tuple[Scan, SourceFacts]:
    schema = pa.schema([(column, pa.int64()) for column in columns])
    source = FileSource("parquet", (f"/{name}.parquet",))
    return Scan(source, schema, path=name), SourceFacts(n_rows=n_rows, exact=True)


def _call(function: str, *args: str | int | Expr) -> Expr:
    def value(arg: str | int | Expr) -> Expr:
        if isinstance(arg, str):
            return Column(arg)
        return Literal(arg, pa.int64()) if isinstance(arg, int) else arg

    return Call(function, tuple(map(value, args)))


def _all(*parts: Expr) -> Expr:
    return reduce(lambda left, right: Call("and", (left, right)), parts)


def twenty_nodes() -> tuple[Plan, dict[str, SourceFacts]]:
    """A plan of 20 nodes as a user writes it, and what its sources are like."""
    sold, sold_facts = _scan("sold", 6_000_000, "s_item", "s_buyer", "s_day", "s_paid", "s_note")
    items, items_facts = _scan("items", 200_000, "i_id", "i_kind", "i_name")
    buyers, buyers_facts = _scan("buyers", 150_000, "b_id", "b_land", "b_name")
    lands, lands_facts = _scan("lands", 25, "l_id", "l_name")
    facts = {"sold": sold_facts, "items": items_facts, "buyers": buyers_facts, "lands": lands_facts}

    def on(left: Node, right: Node, one: str, other: str) -> Join:
        return Join(left, right, (Column(one),), (Column(other),))

    node: Node = on(Filter(sold, _call("gt", "s_paid", 0)), items, "s_item", "i_id")
    named = Select(buyers, tuple(map(Column, ("b_id", "b_land"))))
    node = on(on(node, named, "s_buyer", "b_id"), lands, "b_land", "l_id")
    node = WithColumns(node, (Alias(_call("divide", "s_paid", 100), "euros"),))
    node = WithColumns(node, (Alias(_call("modulo", "s_day", 7), "weekday"),))
    node = Filter(
        node, _all(_call("lt", "s_day", _call("multiply", 60, 24)), _call("eq", "i_kind", 3))
    )
    node = Filter(node, _all(_call("eq", "l_name", 7), _call("eq", "s_day", "s_day")))
    node = Select(node, tuple(map(Column, ("b_id", "l_name", "weekday", "euros"))))
    keys, total = (Column("b_id"), Column("l_name")), Alias(Agg("sum", Column("euros")), "total")
    node = Aggregate(Sort(node, (SortKey(Column("weekday")),)), keys, (total,))
    best = Over(Agg("row_number", None), (Column("l_name"),), (SortKey(Column("total"), True),))
    node = Filter(Window(Distinct(node), (Alias(best, "place"),)), _call("le", "place", 10))
    return Plan(Limit(Sort(node, (SortKey(Column("total"), True),)), 100)), facts


def wide_chain() -> tuple[Plan, dict[str, SourceFacts]]:
    """A frame made column by column."""
    scan, facts = _scan("t", 1_000_000, "a")
    node: Node = scan
    for number in range(N_COLUMNS):
        node = WithColumns(node, (Alias(_call("add", "a", number), f"c{number}"),))
    return Plan(node), {"t": facts}


PLANS = {"20 nodes": twenty_nodes, "wide chain": wide_chain}


class OptimizerRun:
    """One plan, checked, and its facts."""

    def __init__(self, case: Case) -> None:
        plan, self._facts = PLANS[case.name]()
        self._plan = check(plan)

    def work(self) -> object:
        """Optimise it once."""
        return optimizer.optimize(self._plan, self._facts, evaluate=constant_value)

    def answer(self) -> Answer:
        """The size of what came out, and the dearest rules."""
        n_nodes = sum(1 for _ in walk(optimizer.optimize(self._plan, self._facts).root))
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(N_PROFILED):
            self.work()
        profile.disable()
        return Answer(n_nodes, "-", _per_rule(profile))

    def close(self) -> None:
        """Nothing is held."""


def _per_rule(profile: cProfile.Profile) -> dict[str, float]:
    """Milliseconds a call of `optimize` spends in each rule, the dearest first."""
    names = _rules()
    spent: dict[str, float] = {}
    for (_, _, name), row in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if name in names:
            spent[name] = spent.get(name, 0.0) + row[3] / N_PROFILED * 1e3
    dearest = sorted(spent, key=lambda name: -spent[name])[:N_SHOWN]
    return {f"ms_{name}": round(spent[name], 2) for name in dearest}


def _rules() -> set[str]:
    """Names of all rules: the modules of the optimizer that have a function of their name."""
    return {name for name, value in vars(optimizer).items() if "_" in name and callable(value)}


def optimize_run(case: Case) -> OptimizerRun:
    """Ours; nobody else's optimizer takes such a plan."""
    return OptimizerRun(case)


def _cases(_: bool) -> Sequence[Case]:
    return [Case(name, sum(1 for _ in walk(make()[0].root)), 0) for name, make in PLANS.items()]


BENCHMARK = Benchmark(
    name="optimize",
    about="time to optimise a plan, rows are its nodes",
    cases=_cases,
    engines=lambda _: [Engine(None, "bench.optimize:optimize_run")],
)
