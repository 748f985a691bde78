"""What every family of verbs stands on: the columns, and frames over new nodes.

One job: schema, column look-up, and the frame over a node with the settings and sessions of all
frames it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar, cast

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.actions import Actions
from fabric.clients.dataframe.expressions.types import Columns
from fabric.clients.dataframe.lowering.checks import checked_types, exprs_text
from fabric.clients.dataframe.lowering.over import Windowed, check_open, has_window, windowed
from fabric.clients.dataframe.names import call_text, column_name, known_names
from fabric.clients.dataframe.session import common_session
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.faults import with_article
from fabric.plan.printer import expr_text

Flags = bool | Sequence[bool]


class Verbs(Actions):
    """The columns of a frame, and how its verbs make new frames."""

    __slots__ = ()

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the output; nothing runs.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1]}).schema.field("a").type
        DataType(int64)
        """
        return self._schema

    @property
    def columns(self) -> list[str]:
        """Names of the output columns; nothing runs.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": ["x"]}).columns
        ['a', 'b']
        """
        return list(self._schema.names)

    @property
    def dtypes(self) -> dict[str, pa.DataType]:
        """Type of each output column, by name; nothing runs.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": ["x"]}).dtypes
        {'a': DataType(int64), 'b': DataType(string)}
        """
        return dict(zip(self._schema.names, self._schema.types, strict=True))

    # ---- helpers
    def _names(self, given: Iterable[Any], verb: str) -> list[str]:
        """Column names given one by one or as lists, each of which there is."""
        names = [
            name
            for one in args.flatten(args.flatten(given))
            for name in (one.names(self.schema) if isinstance(one, Columns) else [one])
        ]
        for name in names:
            column_name(name, verb)
        return known_names(names, self.columns, verb, lambda mended: call_text(verb, *mended))

    def _order(
        self,
        keys: Sequence[Any],
        line: Callable[[str], str],
        flags: Flags = False,
        nulls_last: bool | None = None,
    ) -> tuple[plan.SortKey, ...]:
        """Sort keys of a verb that is lowered; `line` writes its call with other keys."""
        order = args.sort_keys(keys, flags, nulls_last)
        checked_types(
            [key.input for key in order], self.schema, line("…").split("(")[0].strip("."),
            lambda exprs: line(exprs_text(exprs)),
        )  # fmt: skip
        return order

    def _kept(self, node: nodes.Node, names: Sequence[str] | None = None) -> nodes.Select:
        """A select of `names` (None: this frame's columns) over `node`."""
        chosen = self.columns if names is None else names
        return nodes.Select(node, tuple(plan.Column(name) for name in chosen))

    def _windowed(self, exprs: Sequence[plan.Expr], verb: str) -> Windowed:
        """`exprs` without window functions, over a node that has their values as columns."""
        if not any(map(has_window, exprs)):
            check_open(exprs)
            return Windowed(self._node, tuple(exprs), ())
        return windowed(self._node, exprs, f"{verb}_*/window")

    def _after(self, given: Sequence[plan.Expr], below: Windowed, node: nodes.Node) -> Self:
        """The frame over `node`; an error names the window functions, not their columns."""
        try:
            return self._then(node)
        except PlanError as error:
            if not below.added:
                raise
            text = _with_windows(error.message, given, below)
            raise PlanError(text, node=error.where.node) from None

    def _with(self, others: Sequence[Self], node: nodes.Node) -> Self:
        """The frame over `node`, with the settings and the session of all."""
        config = dict(self._config)
        for other in others:
            config |= other._config
        return self.of(node, config, common_session(frame._session for frame in (self, *others)))

    def _other(self, other: Any, verb: str) -> Self:
        """`other` when it is a frame."""
        if not isinstance(other, Verbs):
            kind = type(other)
            got = with_article(kind.__name__)
            if kind.__name__ in ("DataFrame", "LazyFrame", "Table", "RecordBatch"):
                got += f" of {kind.__module__.split('.')[0]}; write: {verb}(DataFrame(other), ...)"
            raise PlanError(f"{verb} takes a DataFrame, got {got}")
        return cast("Self", other)


F = TypeVar("F", bound=Verbs)
"""The class of the frames that groups become."""


def _with_windows(message: str, given: Sequence[plan.Expr], below: Windowed) -> str:
    """`message` with each column of a window node as the window function it holds."""
    found: dict[str, plan.Over] = {}
    node = below.node
    while isinstance(node, nodes.Window):
        for expr in node.exprs:
            if isinstance(expr, plan.Alias) and isinstance(expr.input, plan.Over):
                found[expr.name] = expr.input
        node = node.input
    for name in reversed(below.added):
        if name in found:
            message = message.replace(f'col("{name}")', expr_text(found[name]))
    return message
