"""A sample by hash: a row stays by its values and the seed, wherever it lies.

One job: ``sample``. The hash is the one that places rows, the same on every place; its low 30
bits, even for similar rows, are compared with the fraction.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.schema import schema_of

_BITS = 30


def sampled(source: nodes.Node, fraction: float | None, n: int | None, seed: int) -> nodes.Node:
    """About `fraction` of the rows of `source`, or `n` of them."""
    if (fraction is None) == (n is None):
        raise PlanError("sample needs a fraction or n: write .sample(0.1) or .sample(n=100)")
    if type(seed) is not int:
        raise PlanError(f"sample takes a whole number as seed, got {seed!r}")
    hashed = _hash(source, seed)
    if n is not None:
        if type(n) is not int or n < 0:
            raise PlanError(f"sample needs n of at least 0, got {n!r}")
        ordered = nodes.Sort(source, (plan.SortKey(hashed),), path="sample_*/sort")
        return nodes.Limit(ordered, n)
    assert fraction is not None
    if not 0 <= fraction <= 1:
        raise PlanError(f"sample needs a fraction from 0 to 1, got {fraction!r}")
    places = plan.Call("pmod", (hashed, plan.Literal(1 << _BITS, pa.int64())))
    bound = plan.Literal(round(fraction * (1 << _BITS)), pa.int64())
    return nodes.Filter(source, plan.Call("lt", (places, bound)))


def _hash(source: nodes.Node, seed: int) -> plan.Expr:
    columns = (plan.Column(name) for name in schema_of(source).names)
    return plan.Call("hash", (*columns, plan.Literal(seed, pa.int64())))
