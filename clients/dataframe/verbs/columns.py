"""Verbs that choose, add and name columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.literal import DTypeLike
from fabric.clients.dataframe.expressions.types import IntoExpr, ManyColumns
from fabric.clients.dataframe.lowering.aggregates import aggregate, has_aggregate
from fabric.clients.dataframe.lowering.over import plain_windows
from fabric.clients.dataframe.names import call_text, known_names
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name, mended


class ColumnVerbs(Verbs):
    """``select``, ``with_columns``, ``drop``, ``rename`` and their like."""

    __slots__ = ()

    def select(self, *columns: ManyColumns, **named: IntoExpr) -> Self:
        """Exactly these columns: names, expressions, ``"*"``, and ``name=expression``.

        Aggregates alone give one row; beside columns they need ``.over()``.

        Parameters
        ----------
        columns
            One by one or as lists; a text is the column of that name, ``lit("x")`` is text.
        named
            Columns under other names; a text is the column of that name here, too.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"a": [1, 2]})
        >>> df.select("a", b=col("a") * 10).columns
        ['a', 'b']
        >>> df.select("a", share=col("a") / col("a").sum().over()).dtypes["share"]
        DataType(double)
        """
        exprs = args.expressions(columns, named, self.schema)
        below = self._windowed(exprs, "select")
        if any(has_aggregate(expr) for expr in below.exprs):
            return self._after(exprs, below, aggregate(below.node, (), below.exprs))
        return self._after(exprs, below, nodes.Select(below.node, below.exprs))

    def with_columns(self, *columns: ManyColumns, replace: bool = False, **named: IntoExpr) -> Self:
        """The columns there are and these after them.

        Overwriting one needs ``replace=True``: a node adds columns, it does not change them unseen.

        Parameters
        ----------
        columns, named
            As in `select`.
        replace
            Whether columns of the same names are meant to be overwritten.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2]}).with_columns(b=col("a") + 1).collect().to_pydict()
        {'a': [1, 2], 'b': [2, 3]}
        """
        exprs = args.expressions(columns, named, self.schema)
        below = self._windowed(exprs, "with_columns")
        if not below.added:
            return self._then(nodes.WithColumns(self._node, exprs, replace))
        names = self._new_names(exprs, replace)
        if plain_windows(exprs) and not set(names) & set(self.columns):
            return self._then(nodes.Window(self._node, exprs))
        all_names = [*self.columns, *(name for name in names if name not in self.columns)]
        node = nodes.WithColumns(below.node, below.exprs, replace)
        return self._after(exprs, below, self._kept(node, all_names))

    def _new_names(self, exprs: Sequence[plan.Expr], replace: bool) -> list[str]:
        """Output names of `exprs`; refuses what ``with_columns`` refuses, before it is lowered."""
        names = [plan.output_name(expr) for expr in exprs]
        over = [name for name in names if name in self.columns]
        if over and not replace:
            free = quoted(free_name(over[0], [*self.columns, *names]))
            raise mended(
                f"with_columns would overwrite {', '.join(map(quoted, over))}; give it a name of "
                f"its own, .alias({free}), or say that it is meant",
                nodes.WithColumns(self._node, tuple(exprs), True),
            )
        for name in names:
            if names.count(name) > 1:
                free = quoted(free_name(name, [*self.columns, *names]))
                raise PlanError(
                    f"with_columns: two columns would be called {quoted(name)}; give one of them "
                    f"a name of its own: .alias({free})"
                )
        return names

    def with_column(self, name: str, column: IntoExpr, *, replace: bool = False) -> Self:
        """The columns there are and `column` as `name`, as in PySpark.

        Parameters
        ----------
        name
            The name of the new column.
        column
            An expression, a constant, or the name of a column.
        replace
            Whether a column of that name is meant to be overwritten; else it is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, None]}).with_column("b", col("a") + 1).collect().to_pydict()
        {'a': [1, None], 'b': [2, None]}
        """
        return self.with_columns(replace=replace, **{name: column})

    def drop(self, *columns: str | Iterable[str]) -> Self:
        """All columns but these.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": [2]}).drop("b").columns
        ['a']
        """
        names = self._names(columns, "drop")
        kept = [name for name in self.columns if name not in names]
        if not kept:
            raise PlanError("drop would leave no column; keep at least one")
        return self._then(self._kept(self._node, kept))

    def rename(self, mapping: Mapping[str, str]) -> Self:
        """The same columns under new names: ``{"old": "new"}``.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": [2]}).rename({"b": "c"}).columns
        ['a', 'c']
        """
        if not isinstance(mapping, Mapping):
            raise PlanError(
                f'rename takes old and new names, {{"old": "new"}}, got {mapping!r}; for all '
                "columns write: {name: name.upper() for name in df.columns}"
            )
        known_names(
            list(mapping), self.columns, "rename",
            lambda names: call_text("rename", dict(zip(names, mapping.values(), strict=True))),
        )  # fmt: skip
        exprs = (
            plan.Alias(plan.Column(name), mapping[name]) if name in mapping else plan.Column(name)
            for name in self.columns
        )
        return self._then(nodes.Select(self._node, tuple(exprs)))

    def with_column_renamed(self, existing: str, new: str) -> Self:
        """The column `existing` under the name `new`, as in PySpark; there must be such a column.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": [2]}).with_column_renamed("a", "x").columns
        ['x', 'b']
        """
        return self.rename({existing: new})

    def cast(self, dtypes: DTypeLike | Mapping[str, DTypeLike]) -> Self:
        """Columns as other types: ``{"price": "decimal(10, 2)"}``, or one type for all.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1]}).cast({"a": "string"}).dtypes
        {'a': DataType(string)}
        """
        wanted = dtypes if isinstance(dtypes, Mapping) else dict.fromkeys(self.columns, dtypes)
        known_names(
            list(wanted), self.columns, "cast",
            lambda names: call_text("cast", dict(zip(names, wanted.values(), strict=True))),
        )  # fmt: skip
        exprs = (Expr(plan.Column(name)).cast(dtype).alias(name) for name, dtype in wanted.items())
        return self._then(nodes.WithColumns(self._node, tuple(e.node for e in exprs), True))

    rename_columns = rename
