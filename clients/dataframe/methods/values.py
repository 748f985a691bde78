"""Values for others: ``replace``, ``cut``, ``qcut``, each a case.

One job: `ValueMethods`, which `Expr` has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

from fabric.clients.dataframe.expressions.literal import PythonValue
from fabric.clients.dataframe.expressions.types import Expression, IntoExpr, Values, to_node
from fabric.clients.dataframe.methods.aggregates import quantile_args
from fabric.errors import PlanError
from fabric.plan import expr as plan

_KEEP: Any = object()  # None is a value: null


class ValueMethods(Expression):
    """Of values that become others.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> df = DataFrame({"a": ["x", "y", None]})
    >>> df.select(col("a").replace({"x": "X", None: "-"})).to_dicts()
    [{'a': 'X'}, {'a': 'y'}, {'a': '-'}]
    """

    __slots__ = ()

    def replace(self, old: Values, new: Values = None, *, default: IntoExpr = _KEEP) -> Self:
        """Values for others: ``{"x": "y"}``, or lists of both; None is null.

        Parameters
        ----------
        old, new
            A mapping alone, or one value or a list, and what becomes of it.
        default
            What all other values become; left out, they stay.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": ["x", "y"]}).select(col("a").replace("x", "X", default=None)).to_dicts()
        [{'a': 'X'}, {'a': None}]
        """
        pairs = _pairs(old, new)
        if not pairs:
            raise PlanError('replace needs values: .replace({"old": "new"})')
        value = to_node(self)
        branches = tuple(
            (plan.Call("eq_null_safe", (value, to_node(one))), to_node(other))
            for one, other in pairs
        )
        rest = value if default is _KEEP else to_node(default)
        return self._of(called_as(value, plan.Case(branches, rest)))

    def cut(
        self,
        breaks: Sequence[float],
        labels: Sequence[str] | None = None,
        *,
        left_closed: bool = False,
    ) -> Self:
        """The name of the interval between `breaks` that a number lies in, as in Polars; null of
        null and NaN.

        Parameters
        ----------
        breaks
            Rising numbers; what is below the first and above the last are intervals too.
        labels
            A name for each interval, one more than there are breaks; None: ``"(1, 2]"``.
        left_closed
            Whether a break belongs to the interval above it, not to that below.

        Examples
        --------
        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 5]}).select(col("a").cut([1, 3])).collect()["a"].to_pylist()
        ['(-inf, 1]', '(3, inf]']
        """
        ends = list(breaks)
        if any(
            isinstance(e, bool) or not isinstance(e, int | float) or math.isnan(e) for e in ends
        ):
            raise PlanError(f"cut takes numbers as breaks, got {ends!r}")
        if ends != sorted(set(ends)):
            raise PlanError(f"cut needs rising breaks, got {ends!r}; write: {sorted(set(ends))!r}")
        names = _labels(labels, len(ends), "cut") or _intervals(ends, left_closed)
        return self._of(_cut(to_node(self), [to_node(end) for end in ends], names, left_closed))

    def qcut(
        self,
        quantiles: int | Sequence[float],
        labels: Sequence[str],
        *,
        left_closed: bool = False,
    ) -> Self:
        """The name of the part of all rows that a number lies in, by its size.

        Parameters
        ----------
        quantiles
            How many parts of equal size, or rising fractions from 0 to 1.
        labels
            A name for each part.

        Examples
        --------
        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"a": [1, 2, 3, 4]})
        >>> df.select(col("a").qcut(2, ["low", "high"])).collect()["a"].to_pylist()
        ['low', 'low', 'high', 'high']
        """
        n = quantiles if type(quantiles) is int else 0
        if n:
            if n < 1:
                raise PlanError(f"qcut needs at least 1 part, got {n}")
            fractions = [i / n for i in range(1, n)]
        else:
            fractions = [] if isinstance(quantiles, int) else list(quantiles)
            good = all(isinstance(q, int | float) and 0 <= q <= 1 for q in fractions)
            if not good or fractions != sorted(set(fractions)) or not fractions:
                raise PlanError(
                    f"qcut takes a number of parts or rising fractions from 0 to 1, got "
                    f"{quantiles!r}"
                )
        names = _labels(labels, len(fractions), "qcut")
        if names is None:
            raise PlanError('qcut needs names for its parts: labels=["low", "high"]')
        value = to_node(self)
        ends = [
            plan.Over(plan.Agg("quantile", value, quantile_args(q, "linear"))) for q in fractions
        ]
        return self._of(_cut(to_node(self), ends, names, left_closed))


def _cut(
    value: plan.Expr, ends: Sequence[plan.Expr], names: Sequence[str], left_closed: bool
) -> plan.Expr:
    below = "lt" if left_closed else "le"
    branches = [(plan.Call(test, (value,)), to_node(None)) for test in ("is_null", "is_nan")]
    branches += [
        (plan.Call(below, (value, end)), to_node(name))
        for end, name in zip(ends, names[:-1], strict=True)
    ]
    return called_as(value, plan.Case(tuple(branches), to_node(names[-1])))


def called_as(value: plan.Expr, made: plan.Expr) -> plan.Expr:
    """What a method made of `value`, under its name: a case is called as its first value."""
    name = plan.output_name(value)
    return made if plan.output_name(made) == name else plan.Alias(made, name)


def _pairs(old: Values, new: Values) -> list[tuple[PythonValue, PythonValue]]:
    if isinstance(old, Mapping):
        if new is not None:
            raise PlanError("replace takes a mapping alone, or values and what they become")
        return list(old.items())
    olds = list(old) if isinstance(old, list | tuple) else [old]
    news = list(new) if isinstance(new, list | tuple) else [new] * len(olds)
    if len(olds) != len(news):
        raise PlanError(f"replace got {len(olds)} values and {len(news)} to replace them by")
    return list(zip(olds, news, strict=True))


def _labels(labels: Sequence[str] | None, n_breaks: int, verb: str) -> list[str] | None:
    if labels is None:
        return None
    names = list(labels)
    if len(names) != n_breaks + 1 or not all(isinstance(name, str) for name in names):
        raise PlanError(f"{verb} needs {n_breaks + 1} names for its parts, got {names!r}")
    return names


def _intervals(ends: Sequence[float], left_closed: bool) -> list[str]:
    texts = [
        "-inf",
        *(f"{end:g}" if float(f"{end:g}") == end else repr(end) for end in ends),
        "inf",
    ]
    first, last = ("[", ")") if left_closed else ("(", "]")
    return [f"{first}{a}, {b}{last}" for a, b in pairwise(texts)]
