"""Aggregates in DataFusion, with Spark's result types, nulls, NaN and overflow.

One job: single, partial and final, all by the forms of `aggregates/`. DataFusion computes parts; an
aggregate's result, or what a task sends, is made of its parts afterwards:

    single    parts of rows, results of parts
    partial   parts of rows, states of parts
    final     parts of states, results of parts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import datafusion
import pyarrow as pa
from datafusion import functions as f

from fabric.operators.fragment.aggregates import FORMS, Bound, Form, Found, Part
from fabric.operators.fragment.aggregates.counts import distinct
from fabric.operators.fragment.floats import normalised
from fabric.operators.fragment.relation import Names, Output, Relation, select
from fabric.operators.fragment.sum_bounds import Fit
from fabric.plan.expr import output_name
from fabric.plan.functions import AGGREGATES
from fabric.plan.nodes import Aggregate
from fabric.plan.nodes.aggregate import state_columns, state_name, unaliased
from fabric.plan.schema import schema_of


def lower_aggregate(
    node: Aggregate, source: Relation, schema: pa.Schema, known: Mapping[int, Fit] | None = None
) -> Relation:
    """`node` over `source`; `schema` is what it puts out, `known` what fits of its sums."""
    known = known or {}
    bounds = [
        replace(_bound(node, i, source, schema), fit=known.get(i, Fit.UNKNOWN))
        for i in range(len(node.aggs))
    ]
    forms = [FORMS[bound.agg.function] for bound in bounds]
    parts = [_parts(node, form, bound) for form, bound in zip(forms, bounds, strict=True)]
    distinct, places = _distinct([part for each in parts for part in each])
    keys = [
        Output(normalised(source.expr(key), field.type), field.name, field.type)
        for key, field in zip(node.keys, schema, strict=False)
    ]
    grouped, found = _aggregated(source, keys, distinct)
    spots = iter(places)
    named = [{part.kind: found.inner[next(spots)] for part in each} for each in parts]
    grouped_keys = [
        Output(datafusion.col(name), key.name, key.dtype)
        for name, key in zip(grouped, keys, strict=True)
    ]
    df, work = _derived(found, grouped, forms, bounds, named)
    made = _states(node, forms, bounds, work) if node.phase == "partial" else [
        Output(form.result(bound, columns), bound.name, bound.dtype)
        for form, bound, columns in zip(forms, bounds, work, strict=True)
    ]  # fmt: skip
    return select(df, [*grouped_keys, *made], source.names)


def _bound(node: Aggregate, index: int, source: Relation, schema: pa.Schema) -> Bound:
    agg = unaliased(node.aggs[index])
    name = output_name(node.aggs[index])
    if node.phase == "partial":
        return Bound(agg, name, pa.null(), source, is_partial=True)
    bound = Bound(agg, name, schema.field(len(node.keys) + index).type, source)
    if node.phase == "single":
        return bound
    kinds = AGGREGATES[agg.function].kinds
    names = {kind: state_name(node, index, kind) for kind in kinds}
    known = {kind: name for kind, name in names.items() if name in source.schema.names}
    return replace(bound, states=known)


def _parts(node: Aggregate, form: Form, bound: Bound) -> list[Part]:
    if node.phase != "final":
        return form.rows(bound)
    assert form.merged is not None
    return form.merged(bound)


def _distinct(parts: Sequence[Part]) -> tuple[list[Part], list[int]]:
    """Different parts, and for each given one its place among them."""
    kept: list[Part] = []
    places = []
    for part in parts:
        same = (i for i, other in enumerate(kept) if _is_same(part, other))
        place = next(same, len(kept))
        if place == len(kept):
            kept.append(part)
        places.append(place)
    return kept, places


def _is_same(a: Part, b: Part) -> bool:
    return a.build is b.build and a.dtype.equals(b.dtype) and a.same == b.same


def _aggregated(
    source: Relation, keys: Sequence[Output], parts: Sequence[Part]
) -> tuple[tuple[str, ...], Relation]:
    """The data frame of keys and parts: internal names of the keys, and a relation of the parts."""
    values = [Output(part.value, f"{i}", part.dtype) for i, part in enumerate(parts)]
    inputs = select(source.df, [*keys, *values], source.names)
    columns = [datafusion.col(name) for name in inputs.inner]
    names = tuple(source.names.fresh() for _ in parts)
    df, builds = inputs.df, [part.build for part in parts]
    if keys and builds == [distinct]:  # far faster than a set of values for each group
        df, builds = df.aggregate(columns, []), [f.count]
    aggs = [
        build(column).alias(name)
        for build, column, name in zip(builds, columns[len(keys) :], names, strict=True)
    ]
    df = df.aggregate(columns[: len(keys)], aggs)
    return inputs.inner[: len(keys)], _relation(df, names, source.names)


def _relation(df: datafusion.DataFrame, inner: tuple[str, ...], names: Names) -> Relation:
    """Columns `inner` of `df` under their internal names."""
    types = dict(zip(df.schema().names, df.schema().types, strict=True))
    return Relation(df, pa.schema([(name, types[name]) for name in inner]), inner, names)


def _derived(
    parts: Relation,
    keys: Sequence[str],
    forms: Sequence[Form],
    bounds: Sequence[Bound],
    named: Sequence[dict[str, str]],
) -> tuple[datafusion.DataFrame, list[Found]]:
    """The parts of each aggregate, with the columns that its results and states share."""
    found = [Found(names, parts) for names in named]
    made = [
        form.derived(bound, columns) if form.derived else {}
        for form, bound, columns in zip(forms, bounds, found, strict=True)
    ]
    if not any(made):
        return parts.df, found
    fresh = [{kind: parts.names.fresh() for kind in each} for each in made]
    exprs = [
        expr.alias(names[kind])
        for each, names in zip(made, fresh, strict=True)
        for kind, expr in each.items()
    ]
    kept = [datafusion.col(name) for name in (*keys, *parts.inner)]
    df = parts.df.select(*kept, *exprs)
    inner = (*parts.inner, *(name for names in fresh for name in names.values()))
    relation = _relation(df, inner, parts.names)
    return df, [Found({**a, **b}, relation) for a, b in zip(named, fresh, strict=True)]


def _states(
    node: Aggregate, forms: Sequence[Form], bounds: Sequence[Bound], found: Sequence[Found]
) -> list[Output]:
    """The state columns of the partial phase."""
    made = []
    for form, bound, known in zip(forms, bounds, found, strict=True):
        assert form.states is not None
        made.append(form.states(bound, known))
    columns = state_columns(node, schema_of(node.input))
    return [Output(made[c.index][c.kind], c.name, c.dtype) for c in columns]
