"""Answers that footers and tables know already.

    Aggregate(; count(), min(a))        Select(1000 as n, 3 as a)
      Select(a, b)                =>      Aggregate(; count())
        Scan(1000 rows, a from 3)           Scan(limit 0)

Valid for counts, smallest and largest values of all rows of a source whose facts are exact; columns
and sorts in between make no rows. An aggregate without keys puts out one row whatever comes in, so
the answers stand in the place of that row. The facts are an argument: the rule reads nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.coordinator.optimizer.expressions import named, passed_through, unaliased
from fabric.plan.expr import Agg, Alias, Column, Expr, Literal, output_name
from fabric.plan.nodes import Aggregate, Exchange, Node, Scan, Select, Sort, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.statistics import SourceFacts, Statistics


def aggregate_from_statistics(statistics: Statistics, node: Node) -> Node:
    """Answer one aggregate; `node` itself when a fact is missing."""
    match node:
        case Aggregate(input=source, keys=(), phase="single"):
            scan, names = _source(source)
            facts = None if scan is None else statistics.get(scan.path)
            if scan is None or facts is None or not facts.exact or not scan.schema.names:
                return node
            types = schema_of(node).types
            answers = [
                _answer(agg, dtype, names, facts)
                for agg, dtype in zip(node.aggs, types, strict=True)
            ]
            if any(answer is None for answer in answers):
                return node
            none = replace(scan, limit=0, columns=(_first(scan),))
            one = (Alias(Agg("count", None), "rows"),)
            row = Aggregate(none, (), one, path=f"{node.path}/row")
            return Select(row, tuple(answer for answer in answers if answer), path=node.path)
        case _:
            return node


def _source(node: Node) -> tuple[Scan | None, dict[str, str]]:
    """The scan below steps that make no rows, and its columns by their names up here."""
    names = {name: name for name in schema_of(node).names}
    while True:
        match node:
            case Scan(predicate=None, limit=None):
                return node, names
            case Select(input=source, exprs=exprs) | WithColumns(input=source, exprs=exprs):
                made = {output_name(expr): None for expr in exprs}
                passed = {name: column.name for name, column in passed_through(exprs).items()}
                names = {
                    name: passed.get(below, below)
                    for name, below in names.items()
                    if below in passed or below not in made
                }
                node = source
            case Sort(input=source) | Exchange(input=source):
                node = source
            case _:
                return None, names


def _answer(
    expr: Expr, dtype: pa.DataType, names: dict[str, str], facts: SourceFacts
) -> Expr | None:
    agg = unaliased(expr)
    if not isinstance(agg, Agg):
        return None
    if agg.function == "count" and agg.input is None:
        return named(Literal(facts.n_rows, dtype), output_name(expr))
    column = names.get(agg.input.name) if isinstance(agg.input, Column) else None
    known = None if column is None else facts.columns.get(column)
    if known is None:
        return None
    answers = {"count": facts.n_rows - known.n_nulls, "min": known.least, "max": known.most}
    if agg.function not in answers:
        return None
    return named(Literal(answers[agg.function], dtype), output_name(expr))


def _first(scan: Scan) -> str:
    return (scan.columns or tuple(scan.schema.names))[0]
