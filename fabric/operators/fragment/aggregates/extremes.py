"""The smallest and the largest value.

One job: their forms. Floats are compared without NaN and without the infinity at the far end; that
those were there is kept beside as a rank. DataFusion's grouped extremes lose a NaN, and begin at
the largest finite number, so that they lose an infinity that is alone, too.
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
from fabric.operators.fragment.floats import normalised
from fabric.plan.expr import columns_of

_NUMBER, _NAN = 0, 2
_FAR = {"min": 1, "max": -1}
"""Ranks in the order of values: NaN is the largest, whichever extreme is wanted."""


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
    far = datafusion.lit(pa.scalar(_far(part.kind), part.dtype))
    number = f.when(f.isnan(same) | (same == far), null).otherwise(same)
    rank = f.when(f.isnan(same), _rank(_NAN)).when(same == far, _rank(_FAR[part.kind]))
    ranked = rank.when(same.is_not_null(), _rank(_NUMBER)).end()
    return [
        Part(part.kind, number, part.dtype, part.build, (part.same, "number")),
        Part("rank", ranked, pa.int8(), part.build, (part.same, "rank")),
    ]


def _far(kind: str) -> float:
    """The infinity that is the extreme only when there is nothing else."""
    return math.inf if kind == "min" else -math.inf


def _rank(rank: int) -> datafusion.Expr:
    return datafusion.lit(pa.scalar(rank, pa.int8()))


def _extreme(kind: str, bound: Bound, found: Found) -> datafusion.Expr:
    """The extreme number, unless the extreme rank is that of NaN or of the far infinity."""
    if "rank" not in found:
        return found[kind]
    dtype = found.type(kind)
    nan = datafusion.lit(pa.scalar(math.nan, dtype))
    far = datafusion.lit(pa.scalar(_far(kind), dtype))
    rank = found["rank"]
    odd = f.when(rank == _rank(_NAN), nan).when(rank == _rank(_FAR[kind]), far)
    return odd.otherwise(found[kind])


def _form(kind: str, build: Build) -> Form:
    return Form(
        rows=partial(_rows, kind, build),
        merged=partial(_merged, kind, build),
        states=lambda bound, found: {kind: _extreme(kind, bound, found)},
        result=partial(_extreme, kind),
    )


FORMS = {"min": _form("min", f.min), "max": _form("max", f.max)}
