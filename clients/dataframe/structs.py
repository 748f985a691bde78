"""The ``.struct`` namespace: the fields of structs."""

from __future__ import annotations

from typing import Generic

from fabric.clients.dataframe.calls import helpful, suggesting
from fabric.clients.dataframe.operators import E
from fabric.clients.dataframe.types import call


class StructMethods(Generic[E]):
    """What ``col("x").struct`` offers; the fields of a null struct are null.

    Examples
    --------
    >>> from fabric import col
    >>> col("address").struct["city"]
    col("address").struct.field("city")
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: E) -> None:
        self._expr = expr

    def field(self, name: str) -> E:
        """The field `name`."""
        return call("struct_field", self._expr, name)

    __getitem__ = field


helpful(StructMethods, space="struct.")
suggesting(StructMethods, ".struct")
