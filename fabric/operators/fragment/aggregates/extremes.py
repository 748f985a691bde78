"""The smallest and the largest value.

One job: their forms. Floats are compared without NaN, and whether there was one is kept beside:
DataFusion's grouped extremes lose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.fragment.aggregates.parts import Bound, Build, Form, Found, Part
from fabric.operators.fragment.keys import normalised
from fabric.plan.expr import columns_of


def _smallest(value: datafusion.Expr, **options: datafusion.Expr) -> datafusion.Expr:
    return f.min(value, **options)


def _largest(value: datafusion.Expr, **options: datafusion.Expr) -> datafusion.Expr:
    return f.max(value, **options)


def _any(value: datafusion.Expr) -> datafusion.Expr:
    return f.bool_or(value)


def _of_constant(build: Callable[..., datafusion.Expr], value: datafusion.Expr) -> datafusion.Expr:
    """With a filter that changes nothing: else DataFusion takes a constant's extreme from
    statistics, and when that is one aggregate of several its own plan breaks."""
    return build(value, filter=value.is_not_null())


def _rows(kind: str, build: Build, bound: Bound) -> list[Part]:
    assert bound.agg.input is not None
    if not columns_of(bound.agg.input):
        build = partial(_of_constant, build)
    return _parts(bound.part(kind, build))


def _merged(kind: str, build: Build, bound: Bound) -> list[Part]:
    return _parts(bound.merging(kind, build))


def _parts(part: Part) -> list[Part]:
    if not t.is_floating(part.dtype):
        return [part]
    null = datafusion.lit(pa.scalar(None, part.dtype))
    same = normalised(part.value, part.dtype)
    number = f.when(f.isnan(same), null).otherwise(same)
    return [
        Part(part.kind, number, part.dtype, part.build, (part.same, "number")),
        Part("nan", f.isnan(same), pa.bool_(), _any, (part.same, "nan")),
    ]


def _extreme(kind: str, bound: Bound, found: Found) -> datafusion.Expr:
    """NaN is the largest: always the maximum, and the minimum of nothing else."""
    if "nan" not in found:
        return found[kind]
    nan = datafusion.lit(pa.scalar(math.nan, found.type(kind)))
    only = found["nan"] if kind == "max" else found["nan"] & found[kind].is_null()
    return f.when(only, nan).otherwise(found[kind])


def _form(kind: str, build: Build) -> Form:
    return Form(
        rows=partial(_rows, kind, build),
        merged=partial(_merged, kind, build),
        states=lambda bound, found: {kind: _extreme(kind, bound, found)},
        result=partial(_extreme, kind),
    )


FORMS = {"min": _form("min", _smallest), "max": _form("max", _largest)}
