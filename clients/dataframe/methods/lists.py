"""The ``.list`` and ``.struct`` namespaces: lists under Polars' and Spark's names, and fields."""

from __future__ import annotations

from typing import Generic

from fabric.clients.dataframe.calls import helpful, part_of, suggesting
from fabric.clients.dataframe.expressions.operators import E
from fabric.clients.dataframe.expressions.types import IntoExpr, call, call_of, case, column_node
from fabric.errors import PlanError

_REST = (1 << 31) - 1


class ListMethods(Generic[E]):
    """What ``col("x").list`` offers; a null list stays null.

    Nulls in a list are values; equal ones are equal here: NaN to NaN, -0.0 to 0.0, null to null.
    Where a list is meant a text is a column.

    Examples
    --------
    >>> from fabric import col
    >>> col("tags").list.unique().list.sort().list.join(", ")
    col("tags").list.unique().list.sort(False, False).list.join(", ")
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: E) -> None:
        self._expr = expr

    def _column(self, value: IntoExpr) -> E:
        """A text is the column of that name."""
        return self._expr._of(column_node(value))

    # ---- what is in it
    def len(self) -> E:
        """How many values, nulls counted."""
        return call("list_len", self._expr)

    def get(self, index: IntoExpr, *, null_on_oob: bool = False) -> E:
        """The value at `index`, from 0, below 0 from the end, as in Polars.

        Where the list is too short the job fails; with `null_on_oob` null stands there.
        """
        return call("list_get" if null_on_oob else "list_item", self._expr, self._column(index))

    def first(self) -> E:
        """The first value; null of an empty list."""
        return self.get(0, null_on_oob=True)

    def last(self) -> E:
        """The last value; null of an empty list."""
        return self.get(-1, null_on_oob=True)

    def contains(self, value: IntoExpr) -> E:
        """True where `value` is in the list, as in Polars: never null, but of a null list.

        A null is found where the list has one.
        """
        found = call("list_contains", self._expr, value)
        has_null = self.len() > call("list_len", call("list_drop_nulls", self._expr))
        looked_for = call_of(self._expr, "is_null", value)
        otherwise = case(self._expr.is_not_null(), looked_for & has_null)
        return call("coalesce", found, otherwise)

    def position(self, value: IntoExpr) -> E:
        """Where `value` is first, counted from 1; 0 where it is not."""
        return call("list_position", self._expr, value)

    def n_unique(self) -> E:
        """How many different values, null counted as one."""
        return ListMethods(self.unique()).len()

    # ---- parts
    def sublist(self, start: IntoExpr, length: IntoExpr = _REST) -> E:
        """`length` values from `start`, counted from 1 as in SQL; below 0 from the end.

        A start before the list, such as -5 in a list of three, gives an empty list.
        """
        return call("list_slice", self._expr, start, length)

    def slice(self, offset: int, length: int | None = None) -> E:
        """`length` values from `offset`, counted from 0 as in Polars; below 0 from the end.

        >>> from fabric import col
        >>> col("tags").list.slice(0, 2)
        col("tags").list.sublist(1, 2)
        """
        if not isinstance(offset, int):
            raise PlanError(f"slice takes whole numbers, got {offset!r}; use sublist for columns")
        if offset >= 0:
            return self.sublist(offset + 1, _REST if length is None else length)
        n_left = self.len() + offset  # of a shorter list the part is cut at its beginning
        most = _REST if length is None else call("greatest", n_left + length, 0)
        whole = self.sublist(offset, _REST if length is None else length)
        return case(n_left >= 0, whole, self.sublist(1, most))

    def head(self, n: int = 5) -> E:
        """The first `n` values."""
        return self.sublist(1, n)

    def tail(self, n: int = 5) -> E:
        """The last `n` values."""
        if n <= 0:
            return self.sublist(1, 0)
        return case(self.len() > n, self.sublist(-n, n), self._expr)

    def drop_nulls(self) -> E:
        """Without the nulls in it."""
        return call("list_drop_nulls", self._expr)

    # ---- together
    def concat(self, *others: IntoExpr) -> E:
        """The values of this list and of `others`; null where one of them is."""
        return call("list_concat", self._expr, *map(self._column, others))

    def append(self, value: IntoExpr) -> E:
        """With `value` at the end."""
        return call("list_append", self._expr, value)

    def prepend(self, value: IntoExpr) -> E:
        """With `value` at the beginning."""
        return call("list_prepend", self._expr, value)

    def flatten(self) -> E:
        """The values of all lists in the list; null where one of them is."""
        return call("list_flatten", self._expr)

    # ---- order
    def reverse(self) -> E:
        """From the end."""
        return call("list_reverse", self._expr)

    def sort(self, descending: bool = False, nulls_last: bool = False) -> E:
        """In order; NaN is the largest, nulls come first unless `nulls_last`."""
        return call("list_sort", self._expr, descending, nulls_last)

    # ---- sets
    def unique(self) -> E:
        """Every value once, where it was first."""
        return call("list_unique", self._expr)

    def set_union(self, other: IntoExpr) -> E:
        """Every value of both lists once."""
        return call("list_union", self._expr, self._column(other))

    def set_intersection(self, other: IntoExpr) -> E:
        """Every value that is in both lists, once."""
        return call("list_intersect", self._expr, self._column(other))

    def set_difference(self, other: IntoExpr) -> E:
        """Every value that is not in `other`, once."""
        return call("list_except", self._expr, self._column(other))

    # ---- one value of all
    def min(self) -> E:
        """The smallest value that is not null; null when there is none."""
        return call("list_min", self._expr)

    def max(self) -> E:
        """The largest value; NaN is the largest."""
        return call("list_max", self._expr)

    def sum(self) -> E:
        """The sum of the values that are not null, 0 when there is none; overflow is an error."""
        return call("list_sum", self._expr)

    def mean(self) -> E:
        """The mean of the values that are not null, a double; null when there is none."""
        return call("list_mean", self._expr)

    def any(self) -> E:
        """True where a value is true; nulls are left out, as in Polars."""
        return call("list_any", self._expr)

    def all(self) -> E:
        """False where a value is false; nulls are left out, as in Polars."""
        return call("list_all", self._expr)

    def join(
        self, separator: IntoExpr, null_replacement: IntoExpr = None, *, ignore_nulls: bool = True
    ) -> E:
        """The strings with `separator` between them; nulls are left out unless replaced.

        Null, when not `ignore_nulls`, where the list has one.
        """
        instead = [] if null_replacement is None else [null_replacement]
        joined = call("list_join", self._expr, separator, *instead)
        if ignore_nulls:
            return joined
        return case(self.len() == ListMethods(self.drop_nulls()).len(), joined)

    # ---- the names Polars and PySpark give the same things
    size = len
    length = len
    distinct = unique
    compact = drop_nulls
    avg = mean


helpful(ListMethods, space="list.")
suggesting(
    ListMethods,
    ".list",
    lambda: {
        "gather": 'fabric.array(col("x").list.get(0), col("x").list.get(2))',
        "eval": 'df.explode("x"), then with_columns of its values',
        "transform": 'df.explode("x"), then with_columns of its values',
    },
    lambda item: part_of("list", item, ".list.get({})"),
)


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
