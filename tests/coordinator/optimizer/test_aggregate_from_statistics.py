from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.aggregate_from_statistics import aggregate_from_statistics
from fabric.plan.expr import Agg, Alias, Column, Literal, SortKey
from fabric.plan.nodes import Aggregate, Filter, Limit, Node, Select, Sort, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.statistics import ColumnFacts, SourceFacts

FACTS = {
    "t": SourceFacts(
        n_rows=10, exact=True, columns={"a": ColumnFacts(n_nulls=3, least=-1, most=8)}
    ),
    "guess": SourceFacts(n_rows=10),
}
rule = partial(aggregate_from_statistics, FACTS)
I64 = pa.int64()


def of_all(source: Node, **aggs: Agg) -> Aggregate:
    return Aggregate(source, (), tuple(Alias(agg, name) for name, agg in aggs.items()), path="x")


def test_fires(p: SimpleNamespace) -> None:
    t = p.table()
    a, z = Column("a"), Column("z")
    renamed = Select(Sort(t, (SortKey(Column("b")),)), (Alias(a, "z"), Column("b")))
    wide = WithColumns(renamed, (Alias(p.call("add", "z", 1), "more"),))
    for source, column in ((t, a), (wide, z)):
        plan = of_all(
            source,
            rows=Agg("count", None),
            n=Agg("count", column),
            least=Agg("min", column),
            most=Agg("max", column),
        )
        found = rule(plan)
        answers = {"rows": 10, "n": 7, "least": -1, "most": 8}
        assert found.exprs == tuple(Alias(Literal(v, I64), k) for k, v in answers.items())
        assert found.path == "x"
        row = found.input
        assert row.input == replace(t, limit=0, columns=("a",))
        assert (row.keys, schema_of(row).names) == ((), ["rows"])
        assert schema_of(found) == schema_of(plan)
        assert rule(row) is row


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    rows = Agg("count", None)
    for plan in (
        of_all(t, x=Agg("sum", Column("a"))),
        of_all(t, x=Agg("min", Column("b"))),
        of_all(t, x=Agg("min", p.call("add", "a", 1))),
        of_all(
            WithColumns(t, (Alias(p.call("add", "a", 1), "a"),), True), x=Agg("min", Column("a"))
        ),
        of_all(Filter(t, p.call("gt", "a", 1)), x=rows),
        of_all(Limit(t, 3), x=rows),
        of_all(replace(t, predicate=p.call("gt", "a", 1)), x=rows),
        of_all(p.table("guess"), x=rows),
        of_all(p.table("unknown"), x=rows),
        Aggregate(t, (Column("a"),), (rows,)),
        t,
    ):
        assert rule(plan) is plan
