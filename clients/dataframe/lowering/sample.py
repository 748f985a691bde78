"""A random sample of rows: each drawn by a number from 0 to 1.

One job: ``sample``. Without a seed the number is `random`, drawn where the row lies. With one it is
a hash of the row, of its number among its equals and the seed, the same in every place:

    Select(X's columns)                       n: Select(X's columns)
      Filter(draw < fraction)                      Limit(n)
        Window(row_number() over row as copy)        Sort(draw)
          WithColumns(hash(X's columns) as row)        …
            X

With replacement a row comes as often as an event that is expected ``fraction`` times; for exactly
`n` rows some more than n are expected of all together, and n of those are drawn.
"""

from __future__ import annotations

import math
import secrets

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of
from fabric.plan.types import is_comparable

_BITS = 53
_FRACTION_MAX = 1_000_000


def sampled(
    source: nodes.Node,
    fraction: float | None,
    n: int | None,
    seed: int | None,
    *,
    with_replacement: bool,
) -> nodes.Node:
    """Each row of `source` with probability `fraction`, or `n` of them."""
    _check(source, fraction, n, seed, with_replacement=with_replacement)
    draws = _Draws(source, seed)
    if with_replacement:
        _repeated(draws, fraction, n)
    if n is not None:
        draws.add("draw", draws.drawn())
        draws.node = nodes.Sort(
            draws.node, (plan.SortKey(draws.column("draw")),), path="sample_*/sort"
        )
        draws.node = nodes.Limit(draws.node, n, path="sample_*/limit")
    elif not with_replacement:
        below = plan.Call("lt", (draws.drawn(), _float(fraction)))
        draws.node = nodes.Filter(draws.node, below, path="sample_*/filter")
    kept = tuple(plan.Column(name) for name in schema_of(source).names)
    return nodes.Select(draws.node, kept, path="sample_*")


class _Draws:
    """The rows with columns beside them, and an independent draw of each row when asked for."""

    def __init__(self, source: nodes.Node, seed: int | None) -> None:
        self.node, self._base, self._seed = source, source, seed
        self._source = schema_of(source)
        self._named: dict[str, str] = {}
        self._parts: list[str] = []
        self._n_draws = 0
        if seed is None:
            return
        columns = tuple(plan.Column(name) for name in self._source.names)
        self.add("row", plan.Call("hash", columns))
        ordered = [field.name for field in self._source if is_comparable(field.type)]
        order = tuple(plan.SortKey(plan.Column(name)) for name in ordered)
        over = plan.Over(
            plan.Agg("row_number", None), (self.column("row"),),
            order or (plan.SortKey(self.column("row")),),
        )  # fmt: skip
        expr = plan.Alias(over, self._new("copy"))
        self.node = nodes.Window(self.node, (expr,), path="sample_*/window")
        self._parts = ["row", "copy"]

    def _new(self, name: str) -> str:
        taken = [*self._source.names, *self._named.values()]
        self._named[name] = free_name(f"__{name}", taken)
        return self._named[name]

    def column(self, name: str) -> plan.Column:
        """One of the columns that were added."""
        return plan.Column(self._named[name])

    def add(self, name: str, value: plan.Expr) -> None:
        """Put `value` beside the rows."""
        expr = plan.Alias(value, self._new(name))
        self.node = nodes.WithColumns(self.node, (expr,), path=f"sample_*/{name}")

    def explode(self, name: str) -> None:
        """A row for each element of the list `name`; they draw apart."""
        position = self._new("position")
        self.node = nodes.Explode(
            self.node, self._named[name], False, position, path="sample_*/explode"
        )
        if self._parts:
            self._parts.append("position")

    def beside(self, name: str, value: plan.Agg) -> None:
        """Put an aggregate over all rows of the source beside each row."""
        expr = plan.Alias(value, self._new(name))
        whole = nodes.Aggregate(self._base, (), (expr,), path=f"sample_*/{name}")
        self.node = nodes.Join(self.node, whole, (), (), "cross", path="sample_*/join")

    def drawn(self) -> plan.Expr:
        """A number from 0 to below 1 for each row, independent of all others."""
        self._n_draws += 1
        if self._seed is None:
            name = plan.Literal(secrets.randbits(62), pa.int64())
            return plan.Call("random", (plan.Column(self._source.names[0]), name))
        salt = (plan.Literal(self._seed, pa.int64()), plan.Literal(self._n_draws, pa.int64()))
        hashed = plan.Call("hash", (*map(self.column, self._parts), *salt))
        bits = plan.Call("pmod", (hashed, plan.Literal(1 << _BITS, pa.int64())))
        return plan.Call("multiply", (plan.Cast(bits, pa.float64()), _float(2.0**-_BITS)))


def _repeated(draws: _Draws, fraction: float | None, n: int | None) -> None:
    """Each row as often as it is drawn, on the average `fraction` times; or together at least n.

    Fewer than `n` come once in 10^20 samples.
    """
    if n is None:
        expected: plan.Expr = _float(fraction)
    else:
        draws.beside("rows", plan.Agg("count", None))
        rows = plan.Cast(draws.column("rows"), pa.float64())
        expected = plan.Call("divide", (_float(n + 10 * math.sqrt(n) + 50), rows))
    times = plan.Call("poisson", (draws.drawn(), expected))
    draws.add("times", plan.Call("list_repeat", (plan.Literal(1, pa.int32()), times)))
    draws.explode("times")


def _float(value: float | None) -> plan.Literal:
    return plan.Literal(None if value is None else float(value), pa.float64())


def _check(
    source: nodes.Node,
    fraction: float | None,
    n: int | None,
    seed: int | None,
    *,
    with_replacement: bool,
) -> None:
    if (fraction is None) == (n is None):
        raise PlanError("sample needs a fraction or n: write .sample(0.1) or .sample(n=100)")
    if seed is not None and (type(seed) is not int or not -(1 << 63) <= seed < 1 << 63):
        raise PlanError(f"sample takes a whole number of 64 bits as seed, got {seed!r}")
    if n is not None and (type(n) is not int or n < 0):
        raise PlanError(f"sample needs n of at least 0, got {n!r}")
    most = _FRACTION_MAX if with_replacement else 1
    is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    if fraction is not None and not (is_number and 0 <= fraction <= most):
        hint = ""
        if is_number and fraction > 1 and not with_replacement:
            whole = f".sample(n={int(fraction)}) for so many rows, " if fraction % 1 == 0 else ""
            hint = f"; write: {whole}.sample({fraction}, with_replacement=True) for more than all"
        raise PlanError(f"sample needs a fraction from 0 to {most}, got {fraction!r}{hint}")
    if stream_of(source) is not None and (n is not None or seed is not None):
        what = "n rows" if n is not None else "a sample with a seed, which numbers equal rows,"
        raise PlanError(
            f"{what} can't be taken of a stream, whose rows are never all there; write: .sample("
            f"{0.1 if fraction is None else fraction})"
        )
    if not schema_of(source).names:
        raise PlanError("sample needs a frame with a column")
