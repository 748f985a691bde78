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
        """How many values, nulls counted.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, None], [], None]}).select(col("x").list.len()).to_dicts()
        [{'x': 2}, {'x': 0}, {'x': None}]
        """
        return call("list_len", self._expr)

    def get(self, index: IntoExpr, *, null_on_oob: bool = False) -> E:
        """The value at `index`, from 0, below 0 from the end, as in Polars.

        Where the list is too short the job fails; with `null_on_oob` null stands there.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[3, 4], []]})
        >>> df.select(col("x").list.get(-1, null_on_oob=True)).to_dicts()
        [{'x': 4}, {'x': None}]
        """
        return call("list_get" if null_on_oob else "list_item", self._expr, self._column(index))

    def first(self) -> E:
        """The first value; null of an empty list.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4], []]}).select(col("x").list.first()).to_dicts()
        [{'x': 3}, {'x': None}]
        """
        return self.get(0, null_on_oob=True)

    def last(self) -> E:
        """The last value; null where the list is empty.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4], []]}).select(col("x").list.last()).to_dicts()
        [{'x': 4}, {'x': None}]
        """
        return self.get(-1, null_on_oob=True)

    def contains(self, value: IntoExpr) -> E:
        """True where `value` is in the list, as in Polars: never null, but of a null list.

        A null is found where the list has one.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, None], [4], None]}).select(col("x").list.contains(3)).to_dicts()
        [{'x': True}, {'x': False}, {'x': None}]
        """
        found = call("list_contains", self._expr, value)
        has_null = self.len() > call("list_len", call("list_drop_nulls", self._expr))
        looked_for = call_of(self._expr, "is_null", value)
        otherwise = case(self._expr.is_not_null(), looked_for & has_null)
        return call("coalesce", found, otherwise)

    def position(self, value: IntoExpr) -> E:
        """Where `value` is first, counted from 1; 0 where it is not.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4], [5]]}).select(col("x").list.position(4)).to_dicts()
        [{'x': 2}, {'x': 0}]
        """
        return call("list_position", self._expr, value)

    def n_unique(self) -> E:
        """The number of distinct values, an int32; nulls count as one value, as in Polars.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, 1, None, None], []]}).select(col("x").list.n_unique()).to_dicts()
        [{'x': 2}, {'x': 0}]
        """
        return ListMethods(self.unique()).len()

    # ---- parts
    def sublist(self, start: IntoExpr, length: IntoExpr = _REST) -> E:
        """`length` values from `start`, counted from 1 as in SQL; below 0 from the end.

        A start before the list, such as -5 in a list of three, gives an empty list.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4, 5]]}).select(col("x").list.sublist(2, 2)).to_dicts()
        [{'x': [4, 5]}]
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
        """The first `n` values, or all values of a shorter list; an `n` below 0 fails the job.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4, 5], [6]]}).select(col("x").list.head(2)).to_dicts()
        [{'x': [3, 4]}, {'x': [6]}]
        """
        return self.sublist(1, n)

    def tail(self, n: int = 5) -> E:
        """The last `n` values, or all values of a shorter list; none for an `n` below 1.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, 4, 5], [6]]}).select(col("x").list.tail(2)).to_dicts()
        [{'x': [4, 5]}, {'x': [6]}]
        """
        if n <= 0:
            return self.sublist(1, 0)
        return case(self.len() > n, self.sublist(-n, n), self._expr)

    def drop_nulls(self) -> E:
        """The list without its nulls; NaN stays.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, None, 2], [None]]}).select(col("x").list.drop_nulls()).to_dicts()
        [{'x': [1, 2]}, {'x': []}]
        """
        return call("list_drop_nulls", self._expr)

    # ---- together
    def concat(self, *others: IntoExpr) -> E:
        """The values of this list and of `others`; null where one of them is.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1]], "y": [[2, 1]]}).select(col("x").list.concat("y")).to_dicts()
        [{'x': [1, 2, 1]}]
        """
        return call("list_concat", self._expr, *map(self._column, others))

    def append(self, value: IntoExpr) -> E:
        """With `value` at the end; an expression may give it.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1], None]}).select(col("x").list.append(2)).to_dicts()
        [{'x': [1, 2]}, {'x': None}]
        """
        return call("list_append", self._expr, value)

    def prepend(self, value: IntoExpr) -> E:
        """The list with `value` before its first value. A string is a value here, not a column.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [["b"], None]}).select(col("x").list.prepend("a")).to_dicts()
        [{'x': ['a', 'b']}, {'x': None}]
        """
        return call("list_prepend", self._expr, value)

    def flatten(self) -> E:
        """The values of all lists in the list; null where one of them is.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[[1], [2, 3]], [[4], None]]})
        >>> df.select(col("x").list.flatten()).to_dicts()
        [{'x': [1, 2, 3]}, {'x': None}]
        """
        return call("list_flatten", self._expr)

    # ---- order
    def reverse(self) -> E:
        """The values, nulls included, in reverse order.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, 2, None]]}).select(col("x").list.reverse()).to_dicts()
        [{'x': [None, 2, 1]}]
        """
        return call("list_reverse", self._expr)

    def sort(self, descending: bool = False, nulls_last: bool = False) -> E:
        """In order; NaN is the largest, nulls come first unless `nulls_last`, either way round.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, None, 3]]}).select(col("x").list.sort(descending=True)).to_dicts()
        [{'x': [None, 3, 1]}]
        """
        return call("list_sort", self._expr, descending, nulls_last)

    # ---- sets
    def unique(self) -> E:
        """Every value once, null too, where it was first.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[3, None, 1, 3]]}).select(col("x").list.unique()).to_dicts()
        [{'x': [3, None, 1]}]
        """
        return call("list_unique", self._expr)

    def set_union(self, other: IntoExpr) -> E:
        """Every value of both lists once.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[1, 2]], "y": [[2, 3]]})
        >>> df.select(col("x").list.set_union("y")).to_dicts()
        [{'x': [1, 2, 3]}]
        """
        return call("list_union", self._expr, self._column(other))

    def set_intersection(self, other: IntoExpr) -> E:
        """Every value that is in both lists, once; null is such a value.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[1, 2, None]], "y": [[2, None]]})
        >>> df.select(col("x").list.set_intersection("y")).to_dicts()
        [{'x': [2, None]}]
        """
        return call("list_intersect", self._expr, self._column(other))

    def set_difference(self, other: IntoExpr) -> E:
        """Every value that is not in `other`, once.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[1, 2, 1]], "y": [[2]]})
        >>> df.select(col("x").list.set_difference("y")).to_dicts()
        [{'x': [1]}]
        """
        return call("list_except", self._expr, self._column(other))

    # ---- one value of all
    def min(self) -> E:
        """The smallest value that is not null, NaN only where there is no number; null of no value.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[2.0, float("nan"), None], [None]]})
        >>> df.select(col("x").list.min()).to_dicts()
        [{'x': 2.0}, {'x': None}]
        """
        return call("list_min", self._expr)

    def max(self) -> E:
        """The largest value, where NaN is above all numbers; null of no value.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [[2.0, float("nan"), None], [None]]})
        >>> df.select(col("x").list.max()).to_dicts()
        [{'x': nan}, {'x': None}]
        """
        return call("list_max", self._expr)

    def sum(self) -> E:
        """The sum of the values that are not null, 0 when there is none; overflow is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, None, 2], []]}).select(col("x").list.sum()).to_dicts()
        [{'x': 3}, {'x': 0}]
        """
        return call("list_sum", self._expr)

    def mean(self) -> E:
        """The mean of the values that are not null, a float64; null when there is none.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[1, None, 2], []]}).select(col("x").list.mean()).to_dicts()
        [{'x': 1.5}, {'x': None}]
        """
        return call("list_mean", self._expr)

    def any(self) -> E:
        """True where a value is true; nulls are left out, as in Polars.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[True, None], [None]]}).select(col("x").list.any()).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("list_any", self._expr)

    def all(self) -> E:
        """False where a value is false; nulls are left out, as in Polars.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [[True, None], [False]]}).select(col("x").list.all()).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("list_all", self._expr)

    def join(
        self, separator: IntoExpr, null_replacement: IntoExpr = None, *, ignore_nulls: bool = True
    ) -> E:
        """The strings with `separator` between them; nulls are left out unless replaced.

        Null, when not `ignore_nulls`, where the list has one.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [["a", None, "b"]]})
        >>> df.select(a=col("x").list.join("-"), b=col("x").list.join("-", "?")).to_dicts()
        [{'a': 'a-b', 'b': 'a-?-b'}]
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
        """The field `name`; null where the struct is.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [{"a": 1}, None]}).select(col("x").struct.field("a")).to_dicts()
        [{'a': 1}, {'a': None}]
        """
        return call("struct_field", self._expr, name)

    __getitem__ = field


helpful(StructMethods, space="struct.")
suggesting(StructMethods, ".struct")
