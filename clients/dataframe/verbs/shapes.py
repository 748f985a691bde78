"""Verbs that change the shape: functions of rows, explode, unnest, pivot, contexts of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length
from fabric.clients.dataframe.expressions.literal import SchemaLike
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns
from fabric.clients.dataframe.functions.aggregates import registry_name
from fabric.clients.dataframe.lowering.checks import check_aggregates, exprs_text
from fabric.clients.dataframe.lowering.contexts import entered, gathered
from fabric.clients.dataframe.lowering.map import (
    AsyncFunction,
    CallSettings,
    map_async,
    map_batches,
)
from fabric.clients.dataframe.lowering.shapes import (
    exploded,
    pivoted,
    unnested,
    unpivoted,
    value_name,
)
from fabric.clients.dataframe.names import call_text, known_one
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.clients.dataframe.verbs.pivot import pivot_values
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import quoted
from fabric.plan.nodes.map_async import CAPACITY, CAPACITY_BYTES
from fabric.plan.stream import OnBad

Names = str | Iterable[str]


class ShapeVerbs(Verbs):
    """``explode``, ``gather``, ``unnest``, ``pivot`` and ``unpivot``."""

    __slots__ = ()

    def map_batches(self, function: Callable[[pa.Table], Any], schema: SchemaLike) -> Self:
        """The rows that `function` gives for the rows of each batch: Arrow in, Arrow out.

        Parameters
        ----------
        function
            Takes a ``pa.Table`` with the columns of this frame, gives a table with those of
            `schema` and any number of rows (or a Polars or pandas frame, a dict of lists). Which
            rows share a batch, and their order, is open.
        schema
            The columns that come out: ``{"name": "type"}`` or a ``pa.Schema``.

        Raises
        ------
        DataError
            When it runs, if the function gives something else.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> from fabric import DataFrame
        >>> def large(rows):
        ...     kept = rows.filter(pc.greater(rows["a"], 1))
        ...     return {"twice": pc.multiply(kept["a"], 2)}
        >>> DataFrame({"a": [1, 2]}).map_batches(large, {"twice": "int64"}).to_dicts()
        [{'twice': 4}]
        """
        return self._then(map_batches(self._node, function, schema))

    def map_async(
        self,
        function: AsyncFunction,
        schema: SchemaLike,
        *,
        keep: Names = (),
        capacity: int = CAPACITY,
        capacity_bytes: int = CAPACITY_BYTES,
        ordered: bool = True,
        timeout: Length = "30 seconds",
        retry: int = 0,
        backoff: Length = "100 ms",
        rate: float | None = None,
        batch: int | None = None,
        on_error: OnBad = "fail",
    ) -> Self:
        """What an asynchronous `function` answers for each row; many rows wait at once.

        Each row's answer comes out exactly once, also after a failure; the call itself may be made
        again. `docs/async.md` says what becomes of a request.

        Parameters
        ----------
        function
            ``async def f(row)``: takes a row as a dict, and gives a dict with the columns of
            `schema`, a list of such dicts, or None for no row. Or an object with such a
            ``__call__``; each task has its own, calls its ``fit(schema)`` if there is one, and
            awaits its ``open()`` and ``close()``.
        schema
            The columns of answers: ``{"name": "type"}`` or a ``pa.Schema``.
        keep
            Columns of the row that come out before those of each of its answers.
        capacity, capacity_bytes
            So many rows, and bytes of them, have a request at once in each task.
        ordered
            Whether answers leave in the order of the rows; if not, as they come.
        timeout, retry, backoff
            Of one call, which is then cancelled. How often one that raised or timed out is made
            again. The time before the first retry, half of it random; doubled for each further one.
        rate
            Calls a second, retries among them, of all tasks together.
        batch
            Call the function with a ``pa.Table`` of up to so many rows. It gives a list with an
            answer for each row, in which an exception fails its row alone, or a table of as many.
        on_error
            When a call failed for good: ``fail``, ``skip`` the row, or ``side``: it is in
            ``.side_output("errors")`` (streams only).

        Raises
        ------
        UserError, ExternalError
            When it runs, with the row: `ExternalError` for a timeout, an `OSError` and an
            `ExternalError` that the function raised; a stream then goes on from its checkpoint.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> async def priced(row):
        ...     return {"price": 10 * row["item"]}  # await a client of the service here
        >>> items = DataFrame({"item": [3, 1, 2]})
        >>> items.map_async(priced, {"price": "int64"}, keep="item").to_dicts()
        [{'item': 3, 'price': 30}, {'item': 1, 'price': 10}, {'item': 2, 'price': 20}]
        """
        settings = CallSettings(
            capacity, capacity_bytes, ordered, timeout, retry, backoff, rate, batch, on_error
        )
        kept = tuple(self._names((keep,), "map_async"))
        return self._then(map_async(self._node, function, schema, kept, settings))

    def explode(
        self, *columns: Names, outer: bool = False, position: str = "", context: str = ""
    ) -> Self:
        """A row for each value of a list column, which becomes the value.

        Several columns go side by side; a list that is shorter than the others ends with nulls.

        Parameters
        ----------
        outer
            A row with null for a null or empty list, instead of none.
        position
            The name of a new column: which value of the list it was, from 0.
        context
            Enter a sub-context of that name: the rows are the items of their parents, and `gather`
            brings them back to one row a parent. Columns added meanwhile belong to the items.

        Examples
        --------
        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"k": ["a", "b"], "items": [[1, 2], []]})
        >>> df.explode("items").sort("items").collect().to_pydict()
        {'k': ['a', 'a'], 'items': [1, 2]}
        >>> items = df.explode("items", context="item").with_columns(twice=col("items") * 2)
        >>> items.gather("item").sort("k").collect().to_pylist()
        [{'k': 'a', 'items': [1, 2], 'twice': [2, 4]}, {'k': 'b', 'items': [], 'twice': []}]
        """
        names = self._names(columns, "explode")
        if not names:
            raise PlanError('explode needs a list column, for example explode("items")')
        if not context:
            return self._then(exploded(self._node, names, outer, position))
        if len(names) > 1 or outer or position:
            line = call_text("explode", names[0], context=context)
            raise PlanError(
                "explode into a context takes one column, keeps parents without items by itself "
                f"and numbers the items as {quoted(context + '.position')}; write: {line}"
            )
        return self._then(entered(self._node, names[0], context))

    def gather(self, context: str, *aggregates: ManyColumns, **named: IntoExpr) -> Self:
        """Back from a sub-context to one row a parent, every parent of it.

        The items' columns (the exploded one and those added since) become lists in the order of the
        items; with `aggregates` only these are put beside the parent's columns. Items that were
        filtered away are missing, their parents are not: they get empty lists, null aggregates and
        counts of 0. A parent whose list was null has null.

        Parents are told apart by a hash of the whole row and a number among rows of one hash, so
        that parents that are equal stay two.

        >>> from fabric import DataFrame, col, count
        >>> orders = DataFrame({"id": [1, 2], "prices": [[5, 20, 30], [1]]})
        >>> items = orders.explode("prices", context="item").filter(col("prices") > 10)
        >>> items.gather("item", n=count(), total=col("prices").sum()).sort("id").select(
        ...     "id", "n", "total").collect().to_pylist()
        [{'id': 1, 'n': 2, 'total': 50}, {'id': 2, 'n': 0, 'total': None}]
        """
        exprs = args.expressions(aggregates, named, self.schema)
        check_aggregates(
            exprs, self.schema, "gather",
            lambda given: f".gather({quoted(context)}, {exprs_text(given).strip('[]')})",
        )  # fmt: skip
        below = self._windowed(exprs, "gather")
        return self._after(exprs, below, gathered(below.node, context, below.exprs))

    def unnest(self, *columns: Names) -> Self:
        """The fields of struct columns as columns, in the place of the struct.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [{"x": 1, "y": 2}], "b": [3]}).unnest("a").columns
        ['x', 'y', 'b']
        """
        names = self._names(columns, "unnest")
        if not names:
            raise PlanError('unnest needs a struct column, for example unnest("address")')
        return self._then(unnested(self._node, names))

    def pivot(
        self,
        on: str,
        on_columns: Sequence[Any] | None = None,
        *,
        index: Names | None = None,
        values: Names | None = None,
        aggregate_function: str = "first",
    ) -> Self:
        """A column for each value of `on`, holding `values` of one row for each `index`.

        Parameters
        ----------
        on_columns
            The values of `on` to make columns of; None lets a first job find them, now.
        index
            What makes a row; None: all columns that are neither `on` nor `values`.
        values
            What the new columns hold; None: all that are neither `on` nor `index`.
        aggregate_function
            What is made of several values: ``first`` (any of them), ``sum``, ``max``, ``mean``,
            ``len`` and so on.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a", "a", "b"], "m": ["x", "y", "x"], "v": [1, 2, 3]})
        >>> df.pivot("m", ["x", "y"], index="k", values="v").sort("k").collect().to_pylist()
        [{'k': 'a', 'x': 1, 'y': 2}, {'k': 'b', 'x': 3, 'y': None}]
        """
        known_one(on, self.columns, "pivot", on=on)
        rows = None if index is None else self._names([index], "pivot")
        cells = None if values is None else self._names([values], "pivot")
        if cells is None:
            cells = [c for c in self.columns if c != on and c not in (rows or ())]
            if rows is None:
                raise PlanError(
                    f"pivot needs index or values; write for example: "
                    f"{call_text('pivot', on, values=cells[-1] if cells else 'x')}"
                )
        if rows is None:
            rows = [c for c in self.columns if c != on and c not in cells]
        agg = _aggregate(aggregate_function)
        found = pivot_values(self, on) if on_columns is None else list(on_columns)
        columns = [
            (value_name(v) if len(cells) == 1 else f"{cell}_{value_name(v)}", v, agg(cell))
            for cell in cells
            for v in found
        ]
        keys = tuple(plan.Column(name) for name in rows)
        return self._then(pivoted(self._node, keys, on, columns))

    def unpivot(
        self,
        on: Names | None = None,
        *,
        index: Names | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Self:
        """A row for each row and column of `on`: its name as ``variable``, its value as ``value``.

        Parameters
        ----------
        on
            The columns to put below each other; their types must agree. None: all but `index`.
        index
            The columns to keep beside them.
        variable_name, value_name
            The names of the two new columns.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a"], "x": [1], "y": [2]})
        >>> df.unpivot(["x", "y"], index="k").sort("variable").collect().to_pylist()
        [{'k': 'a', 'variable': 'x', 'value': 1}, {'k': 'a', 'variable': 'y', 'value': 2}]
        """
        kept = [] if index is None else self._names([index], "unpivot")
        if on is None:
            names = [name for name in self.columns if name not in kept]
        else:
            names = self._names([on], "unpivot")
        return self._then(unpivoted(self._node, names, kept, (variable_name, value_name)))

    def melt(
        self,
        id_vars: Names | None = None,
        value_vars: Names | None = None,
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Self:
        """`unpivot` with the arguments of pandas and PySpark.

        Parameters
        ----------
        id_vars, value_vars
            What `unpivot` calls ``index`` and ``on``.
        variable_name, value_name
            The names of the two new columns.

        >>> from fabric import DataFrame
        >>> df = DataFrame({"k": ["a"], "x": [1], "y": [2]})
        >>> df.melt("k", ["x", "y"]).sort("variable").collect().to_pylist()
        [{'k': 'a', 'variable': 'x', 'value': 1}, {'k': 'a', 'variable': 'y', 'value': 2}]
        """
        return self.unpivot(
            value_vars, index=id_vars, variable_name=variable_name, value_name=value_name
        )


def _aggregate(function: str) -> Any:
    """A maker of the aggregate of that name over a column."""
    if function == "len":
        return lambda _: plan.Agg("count", None)
    name = registry_name(
        function, f"pivot: {function!r}", lambda near: f"aggregate_function={quoted(near)}"
    )
    return lambda column: plan.Agg(name, plan.Column(column))
