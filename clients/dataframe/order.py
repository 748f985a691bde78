"""One key of a sort, as users write it: ``col("x").desc()``."""

from __future__ import annotations

from fabric.plan.expr import Expr as Node
from fabric.plan.expr import SortKey
from fabric.plan.printer import expr_text


class Order:
    """An expression with a direction; made by `Expr.asc` and `Expr.desc`."""

    __slots__ = ("key",)

    def __init__(self, node: Node, *, descending: bool, nulls_last: bool) -> None:
        self.key = SortKey(node, descending, nulls_last)

    def nulls_first(self) -> Order:
        """The same order with nulls before all values."""
        return Order(self.key.input, descending=self.key.descending, nulls_last=False)

    def nulls_last(self) -> Order:
        """The same order with nulls after all values."""
        return Order(self.key.input, descending=self.key.descending, nulls_last=True)

    def __repr__(self) -> str:
        direction = "desc" if self.key.descending else "asc"
        nulls = ".nulls_last()" if self.key.nulls_last else ".nulls_first()"
        return f"{expr_text(self.key.input)}.{direction}(){nulls}"
