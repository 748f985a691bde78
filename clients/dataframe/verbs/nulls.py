"""Verbs about nulls and NaNs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.types import (
    Filler,
    IntoExpr,
    KeyColumns,
    ManyKeys,
    column_node,
    to_node,
)
from fabric.clients.dataframe.lowering.checks import checked_types, exprs_text
from fabric.clients.dataframe.methods.over import FillStrategy
from fabric.clients.dataframe.names import call_text, choice, known_names
from fabric.clients.dataframe.verbs.columns import ColumnVerbs
from fabric.clients.dataframe.verbs.rows import RowVerbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import quoted, with_article
from fabric.plan.literals import scalar_of
from fabric.plan.types import is_string, plain

_STRATEGIES = ("forward", "backward", "min", "max", "mean", "zero", "one")


class NullVerbs(ColumnVerbs, RowVerbs):
    """``fill_null``, ``fill_nan``, ``drop_nulls`` and ``drop_nans``."""

    __slots__ = ()

    def fill_null(
        self,
        value: Filler = None,
        strategy: FillStrategy | None = None,
        *,
        subset: str | Iterable[str] | None = None,
        partition_by: KeyColumns = (),
        order_by: ManyKeys = None,
    ) -> Self:
        """The same rows with other values for nulls.

        Parameters
        ----------
        value
            A constant for every column of its kind (a number for numbers, a string for strings), an
            expression for all columns, or ``{"column": value}``.
        strategy
            ``forward`` and ``backward``: the nearest value before or after in `order_by`, within
            equal `partition_by`; ``min``, ``max`` and ``mean`` of the column there; ``zero``,
            ``one``.
        subset
            Only these columns.
        partition_by, order_by
            Within which rows, and in which order, a strategy looks for values.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"t": [1, 2], "x": [7, None], "s": [None, "b"]})
        >>> df.fill_null(0).columns, df.fill_null({"s": "?"}).sort("t").collect()["s"].to_pylist()
        (['t', 'x', 's'], ['?', 'b'])
        >>> df.fill_null(strategy="forward", order_by="t").sort("t").collect()["x"].to_pylist()
        [7, 7]
        """
        names = self.columns if subset is None else self._names([subset], "fill_null")
        if strategy is None:
            if value is None:
                raise PlanError("fill_null needs a value or a strategy: write .fill_null(0)")
            return self._filled(self._fillers(value, names, subset is not None))
        if value is not None:
            raise PlanError(
                f"fill_null takes a value or a strategy, got {value!r} and {strategy!r}"
            )
        choice(strategy, _STRATEGIES, "fill_null", "strategy")
        if strategy in ("forward", "backward") and order_by is None:
            line = call_text("fill_null", strategy=strategy)[:-1]
            raise PlanError(
                f"fill_null can't know what is {strategy} without an order; write: {line}, "
                'order_by="...") with the column to order by'
            )
        start = call_text("fill_null", strategy=strategy)[:-1]
        if order_by is not None:
            self._order([order_by], lambda text: f"{start}, order_by={text})")
        keys = [column_node(key) for key in args.flatten([partition_by])]
        checked_types(
            keys, self.schema, "fill_null",
            lambda exprs: f"{start}, partition_by={exprs_text(exprs)})",
        )  # fmt: skip
        return self._by_strategy(strategy, names, partition_by, order_by)

    def _by_strategy(
        self, strategy: FillStrategy, names: list[str], partition_by: Any, order_by: Any
    ) -> Self:
        numbers = strategy in ("mean", "zero", "one")
        fillers: dict[str, plan.Expr] = {}
        for name in names:
            if numbers and not _is_number(self.dtypes[name]):
                continue
            filled = Expr(plan.Column(name)).fill_null(strategy=strategy)
            if strategy in ("forward", "backward"):
                filled = filled.over(partition_by, order_by=order_by)
            elif strategy not in ("zero", "one"):
                filled = filled.over(partition_by)
            fillers[name] = plan.Cast(filled.node, plain(self.dtypes[name])) if numbers else (
                filled.node
            )  # fmt: skip
        return self._filled(fillers)

    def _fillers(self, value: Any, names: list[str], chosen: bool) -> dict[str, plan.Expr]:
        """By column what takes the place of its nulls."""
        if isinstance(value, Mapping):
            known_names(
                list(value), self.columns, "fill_null",
                lambda mended: call_text(
                    "fill_null", dict(zip(mended, value.values(), strict=True))
                ),
            )  # fmt: skip
            return {n: _coalesced(n, _fitting(v, self.dtypes[n], n)) for n, v in value.items()}
        found: dict[str, plan.Expr] = {}
        for name in names:
            filler = _fitting(value, self.dtypes[name], name, strict=chosen)
            if filler is not None:
                found[name] = _coalesced(name, filler)
        if not found:
            kinds = ", ".join(f"{quoted(n)} is {self.dtypes[n]}" for n in names[:6])
            raise PlanError(f"fill_null: no column can hold {value!r}: {kinds}")
        return found

    def _filled(self, fillers: Mapping[str, plan.Expr]) -> Self:
        exprs = [Expr(plan.Alias(expr, name)) for name, expr in fillers.items()]
        return self.with_columns(exprs, replace=True)

    def fill_nan(self, value: IntoExpr) -> Self:
        """The same rows with `value` (None: null) for NaN in every float column.

        >>> from fabric import DataFrame
        >>> DataFrame({"x": [1.0, float("nan")]}).fill_nan(0.0).sort("x").collect().to_pydict()
        {'x': [0.0, 1.0]}
        """
        floats = [n for n, dtype in self.dtypes.items() if t.is_floating(plain(dtype))]
        fillers: dict[str, plan.Expr] = {}
        for name in floats:
            column = plan.Column(name)
            filler = plan.Cast(to_node(value), plain(self.dtypes[name]))
            fillers[name] = plan.Case(((plan.Call("is_nan", (column,)), filler),), column)
        return self._filled(fillers) if fillers else self

    def drop_nulls(
        self,
        *columns: str | Iterable[str],
        how: str = "any",
        thresh: int | None = None,
        subset: str | Iterable[str] | None = None,
    ) -> Self:
        """The rows without a null in `columns` (none given: in any column).

        Parameters
        ----------
        how
            ``any`` null drops a row, or only nulls in ``all`` of the columns do.
        thresh
            Keep the rows with so many values that are not null, whatever `how` says.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"a": [1, None, None], "b": [1, 2, None]})
        >>> df.drop_nulls().count(), df.drop_nulls(how="all").count(), df.drop_nulls("b").count()
        (1, 2, 2)
        """
        if columns in (("any",), ("all",)) and columns[0] not in self.columns:  # PySpark's order
            how, columns = str(columns[0]), ()
        choice(how, ("any", "all"), "drop_nulls", "how")
        names = self._names([columns, [] if subset is None else subset], "drop_nulls")
        tests = [plan.Call("is_not_null", (plan.Column(name),)) for name in names or self.columns]
        if thresh is not None:
            return self._then(nodes.Filter(self._node, _at_least(tests, thresh)))
        joined: plan.Expr = tests[0]
        for test in tests[1:]:
            joined = plan.Call("and" if how == "any" else "or", (joined, test))
        return self._then(nodes.Filter(self._node, joined))

    def drop_nans(self, *columns: str | Iterable[str]) -> Self:
        """The rows without NaN in `columns` (none given: in any float column); null is not NaN.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"x": [1.0, float("nan"), None]})
        >>> df.drop_nans().sort("x").collect().to_pydict()
        {'x': [None, 1.0]}
        """
        floats = [n for n, dtype in self.dtypes.items() if t.is_floating(plain(dtype))]
        names = self._names(columns, "drop_nans") or floats
        kept = [~Expr(plan.Column(name)).is_nan() for name in names]
        return self.filter(*kept) if kept else self


def _coalesced(name: str, filler: plan.Expr | None) -> plan.Expr:
    assert filler is not None
    return plan.Call("coalesce", (plan.Column(name), filler))


def _at_least(tests: list[plan.Call], thresh: int) -> plan.Expr:
    """Whether at least `thresh` of `tests` are true."""
    if type(thresh) is not int:
        raise PlanError(f"drop_nulls takes a whole number as thresh, got {thresh!r}")
    one, zero = plan.Literal(1, pa.int32()), plan.Literal(0, pa.int32())
    total: plan.Expr = zero
    for test in tests:
        total = plan.Call("add", (total, plan.Case(((test, one),), zero)))
    return plan.Call("ge", (total, plan.Literal(thresh, pa.int32())))


def _is_number(dtype: pa.DataType) -> bool:
    return _kind(dtype) == "number"


def _fitting(
    value: IntoExpr, dtype: pa.DataType, name: str, *, strict: bool = True
) -> plan.Expr | None:
    """`value` as a constant of the column `name`, None where another kind of value belongs.

    A value of the right kind that the column can't hold exactly is refused, and with `strict` so is
    one of another kind.
    """
    node = to_node(value)
    if isinstance(value, Expr) and not isinstance(node, plan.Literal):
        return node
    assert isinstance(node, plan.Literal)
    if _kind(node.dtype) != _kind(dtype):
        if strict:
            raise PlanError(
                f"fill_null can't put {value!r} into {quoted(name)}, {with_article(str(dtype))}"
            )
        return None
    wanted = plain(dtype)
    try:
        held = scalar_of(plan.Literal(node.value, wanted)).as_py()
        same = held == node.value or (isinstance(value, float) and math.isnan(value))
    except ValueError:
        same = False
    if not same:
        raise PlanError(
            f"fill_null: {quoted(name)} is {dtype} and can't hold {value!r}; name the columns, "
            f'for example .fill_null({{"other": {value!r}}}), or cast {quoted(name)} before'
        )
    return plan.Literal(held, wanted)


def _kind(dtype: pa.DataType) -> str:
    inner = plain(dtype)
    if is_string(inner):
        return "string"
    if t.is_integer(inner) or t.is_floating(inner) or t.is_decimal(inner):
        return "number"
    if t.is_timestamp(inner):
        return "timestamp"
    return f"type {inner.id}"
