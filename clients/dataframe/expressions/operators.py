"""Operators of expressions, comparisons, casts and tests for null.

One job: turn Python operators into plan expressions. Nothing is computed and no column is looked up
here; the DataFrame method that takes the expression checks names and types at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar

from fabric.clients.dataframe.calls import helpful
from fabric.clients.dataframe.expressions.literal import (
    DTypeLike,
    PythonValue,
    to_dtype,
    to_literal,
)
from fabric.clients.dataframe.expressions.types import (
    Expression,
    IntoExpr,
    Order,
    call,
    call_of,
    column_node,
    to_node,
)
from fabric.clients.dataframe.names import text
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.printer import expr_text

E = TypeVar("E", bound="Operators")
"""The class of the expressions that a family of methods makes."""
IntoNumber: TypeAlias = "int | Operators"
"""A whole number, or an expression of them."""
IntoText: TypeAlias = "str | Operators"
"""A text, or an expression of texts."""
_NO_TRUTH = (
    "an expression has no truth value before the job runs; write & for 'and', | for 'or', ~ for "
    '\'not\', with each comparison in brackets: (col("a") > 1) & (col("b") < 2); write '
    ".between(1, 5) for 1 <= x <= 5 and .is_in([...]) for 'in'; the expression was: "
)


_CLOSED = {
    "both": ("ge", "le"), "left": ("ge", "lt"), "right": ("gt", "le"), "none": ("gt", "lt"),
}  # fmt: skip


class Operators(Expression):
    """What all expressions can do, by the signs of Python and as methods.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> x, nan = col("x"), float("nan")
    >>> DataFrame({"x": [1, None]}).select(a=x + 1, b=x < nan, c=x.ne_missing(1)).to_dicts()
    [{'a': 2, 'b': True, 'c': False}, {'a': None, 'b': None, 'c': True}]
    """

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]  # `==` builds an expression

    # ---- arithmetic: int / int is a fraction, // and % floor as in Python, overflow is an error
    def __add__(self, other: IntoExpr) -> Self:
        """The sum, of strings both joined; null where one is null, overflow is an error."""
        return call("add", self, other)

    def __radd__(self, other: IntoExpr) -> Self:
        return call_of(self, "add", other, self)

    def __sub__(self, other: IntoExpr) -> Self:
        """The difference, of times a duration; null where one is null, overflow is an error."""
        return call("subtract", self, other)

    def __rsub__(self, other: IntoExpr) -> Self:
        return call_of(self, "subtract", other, self)

    def __mul__(self, other: IntoExpr) -> Self:
        """The product; null where one is null, overflow is an error."""
        return call("multiply", self, other)

    def __rmul__(self, other: IntoExpr) -> Self:
        return call_of(self, "multiply", other, self)

    def __truediv__(self, other: IntoExpr) -> Self:
        """The quotient, of integers a float64; null where one is null, error where `other` is 0."""
        return call("divide", self, other)

    def __rtruediv__(self, other: IntoExpr) -> Self:
        return call_of(self, "divide", other, self)

    def __floordiv__(self, other: IntoExpr) -> Self:
        """The quotient rounded down, as in Python; division by 0 is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-7]}).select(floor=col("x") // 2, part=col("x") / 2).to_dicts()
        [{'floor': -4, 'part': -3.5}]
        """
        return call("floor_quotient", self, other)

    def __rfloordiv__(self, other: IntoExpr) -> Self:
        return call_of(self, "floor_quotient", other, self)

    def __mod__(self, other: IntoExpr) -> Self:
        """The remainder with the sign of the divisor, as in Python; division by 0 is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-7]}).select(up=col("x") % 3, down=col("x") % -3).to_dicts()
        [{'up': 2, 'down': -1}]
        """
        return call("floor_remainder", self, other)

    def __rmod__(self, other: IntoExpr) -> Self:
        return call_of(self, "floor_remainder", other, self)

    def __neg__(self) -> Self:
        return call("negate", self)

    def __abs__(self) -> Self:
        return call("abs", self)

    # ---- comparison: null compares to null, NaN equals NaN and is the largest
    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        """True where both are equal, also where both are NaN; null where one is null."""
        return call("eq", self, other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        """True where both differ; NaN does not differ from NaN. Null where one is null."""
        return call("ne", self, other)

    def __lt__(self, other: IntoExpr) -> Self:
        """True where the value is below `other`, NaN above all numbers; null where one is null."""
        return call("lt", self, other)

    def __le__(self, other: IntoExpr) -> Self:
        """True where the value is not above `other`; null where one is null."""
        return call("le", self, other)

    def __gt__(self, other: IntoExpr) -> Self:
        """True where the value is above `other`, NaN above all numbers; null where one is null."""
        return call("gt", self, other)

    def __ge__(self, other: IntoExpr) -> Self:
        """True where the value is not below `other`; null where one is null."""
        return call("ge", self, other)

    # ---- boolean
    def __and__(self, other: IntoExpr) -> Self:
        return call("and", self, other)

    def __xor__(self, other: IntoExpr) -> Self:
        raise PlanError(
            "^ is not an operator of expressions; write: a.bitwise_xor(b) for whole numbers, "
            "a != b for true and false, a.pow(b) for a power"
        )

    __rxor__ = __xor__

    def __getitem__(self, item: object) -> Any:
        raise PlanError(
            f"an expression has no [{item!r}]; write: .list.get(0) for a value of a list, "
            '.struct.field("name") for a field, .str.slice(0, 1) for a part of a text'
        )

    def __round__(self, digits: int = 0) -> Self:
        return self.round(digits)

    def __rand__(self, other: IntoExpr) -> Self:
        return call_of(self, "and", other, self)

    def __or__(self, other: IntoExpr) -> Self:
        return call("or", self, other)

    def __ror__(self, other: IntoExpr) -> Self:
        return call_of(self, "or", other, self)

    def __invert__(self) -> Self:
        """True for false and false for true, null for null; a number is a PlanError."""
        return call("not", self)

    def __bool__(self) -> NoReturn:
        raise PlanError(_NO_TRUTH + repr(self))

    def __iter__(self) -> NoReturn:
        raise PlanError(f"an expression can't be iterated: {self!r}; give a list of expressions")

    def __repr__(self) -> str:
        return expr_text(self.node)

    # ---- names and types
    def alias(self, name: str) -> Self:
        """The same values under the output name `name`; two equal output names are a PlanError."""
        return self._of(plan.Alias(to_node(self), text(name, "alias", "name")))

    def cast(self, dtype: DTypeLike, *, strict: bool = True) -> Self:
        """Convert; a value that `dtype` can't hold fails the job, or is null when not `strict`.

        >>> from fabric import col
        >>> col("price").cast("decimal(10, 2)")
        col("price").cast("decimal128(10, 2)")
        """
        return self._of(plan.Cast(to_node(self), to_dtype(dtype), not strict))

    def try_cast(self, dtype: DTypeLike) -> Self:
        """Convert; a value that `dtype` can't hold is null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["1", "one"]}).select(col("x").try_cast("int64")).to_dicts()
        [{'x': 1}, {'x': None}]
        """
        return self.cast(dtype, strict=False)

    # ---- nulls and membership
    def is_null(self) -> Self:
        """True where the value is null, false where it is NaN; never null."""
        return call("is_null", self)

    def is_not_null(self) -> Self:
        """True where the value is not null, also where it is NaN; never null."""
        return call("is_not_null", self)

    def is_nan(self) -> Self:
        """True where the value is NaN, false where it is null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [float("nan"), None]}).select(col("x").is_nan()).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("is_nan", self)

    def is_in(self, values: Iterable[PythonValue]) -> Self:
        """True where the value is one of `values`; SQL ``IN``, so null when it can't be known.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [1, 2, None]})
        >>> df.select(a=col("x").is_in([1]), b=col("x").is_in([1, None])).collect().to_pydict()
        {'a': [True, False, None], 'b': [True, None, None]}
        """
        if isinstance(values, str | Expression) or not isinstance(values, Iterable):
            raise PlanError(f"is_in takes a list of constants, got {values!r}; write is_in([...])")
        return self._of(plan.IsIn(to_node(self), tuple(to_literal(value) for value in values)))

    def isin(self, *values: PythonValue | Iterable[PythonValue]) -> Self:
        """`is_in` with the values as a list, a tuple or a set, or one by one, as in PySpark."""
        one = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        given: Any = values[0] if one else values
        return self.is_in(given)

    def between(self, lower: IntoExpr, upper: IntoExpr) -> Self:
        """True where ``lower <= value <= upper``; a text is that text, as in PySpark.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 3, None]}).select(col("x").between(1, 2)).to_dicts()
        [{'x': True}, {'x': False}, {'x': None}]
        """
        return call("and", call("ge", self, lower), call("le", self, upper))

    def is_between(
        self, lower_bound: IntoExpr, upper_bound: IntoExpr, closed: str = "both"
    ) -> Self:
        """True between two bounds, as in Polars: a text is a column, ``lit("x")`` is text.

        `closed` says which bounds belong to it: ``"both"``, ``"left"``, ``"right"``, ``"none"``.

        >>> from fabric import col
        >>> col("x").is_between("low", 10, closed="left")
        (col("x") >= col("low")) & (col("x") < 10)
        """
        if closed not in _CLOSED:
            raise PlanError(f"is_between has no closed={closed!r}; use {', '.join(_CLOSED)}")
        lower, upper = _CLOSED[closed]
        node, low, high = to_node(self), column_node(lower_bound), column_node(upper_bound)
        inside = plan.Call(lower, (node, low)), plan.Call(upper, (node, high))
        return self._of(plan.Call("and", inside))

    def eq_null_safe(self, other: IntoExpr) -> Self:
        """Equality where null equals null and the answer is never null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, None]}).select(col("x").eq_null_safe(None)).to_dicts()
        [{'x': False}, {'x': True}]
        """
        return call("eq_null_safe", self, other)

    def ne_missing(self, other: IntoExpr) -> Self:
        """True where both differ; null equals null and the answer is never null."""
        return call("not", call("eq_null_safe", self, other))

    # ---- numbers
    def abs(self) -> Self:
        """The absolute value, also of a duration; overflow of the smallest integer is an error."""
        return call("abs", self)

    def round(self, decimals: int = 0) -> Self:
        """Rounded half away from zero to `decimals` digits; below 0 to tens, hundreds …

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-12.5]}).select(a=col("x").round(), b=col("x").round(-1)).to_dicts()
        [{'a': -13.0, 'b': -10.0}]
        """
        return call("round", self, decimals)

    def floor(self) -> Self:
        """The largest int64 that is not above the value; 0 of NaN, overflow is an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-2.5]}).select(a=col("x").floor(), b=col("x").ceil()).to_dicts()
        [{'a': -3, 'b': -2}]
        """
        return call("floor", self)

    def ceil(self) -> Self:
        """The smallest int64 that is not below the value; 0 of NaN, overflow is an error."""
        return call("ceil", self)

    # ---- order
    def asc(self) -> Order:
        """Ascending, nulls first, NaN last; see `desc`."""
        return Order(to_node(self), descending=False, nulls_last=False)

    def desc(self) -> Order:
        """Descending, NaN first, nulls last; ``.nulls_first()`` puts them first.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2, None, 3]}).sort(col("x").desc()).collect().to_pydict()
        {'x': [3, 2, None]}
        """
        return Order(to_node(self), descending=True, nulls_last=True)

    # ---- texts, as methods of PySpark's columns; a text is that text, `contains` takes no pattern
    def contains(self, other: IntoExpr) -> Self:
        """True where `other` occurs in the text, as in PySpark; patterns: ``.str.contains``.

        >>> from fabric import col
        >>> col("name").contains("a.b")
        col("name").str.contains("a.b", literal=True)
        """
        return call("contains", self, other)

    def startswith(self, other: IntoExpr) -> Self:
        """True where the text begins with the text or column `other`; see ``.str.starts_with``."""
        return call("starts_with", self, other)

    def endswith(self, other: IntoExpr) -> Self:
        """True where the text ends with the text or column `other`; see ``.str.ends_with``."""
        return call("ends_with", self, other)

    def like(self, other: str) -> Self:
        """True where the whole text is like `other`: % any text, _ any character.

        A backslash before them takes them as they are.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": ["abcd", "xabc"]}).select(col("x").like("a_c%")).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("like", self, other)

    def ilike(self, other: str) -> Self:
        """As `like`, of both texts in lower case; `other` is a constant."""
        return call("ilike", self, other)

    def rlike(self, other: str) -> Self:
        """True where the regular expression of Spark matches somewhere; see ``.str.rlike``."""
        return call("regexp_contains", self, other)

    def substr(self, startPos: IntoExpr, length: IntoExpr) -> Self:
        """`length` characters from `startPos`, counted from 1 as in SQL; below 0 from the end.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": ["abcd"]})
        >>> df.select(a=col("x").substr(2, 2), b=col("x").substr(-2, 1)).to_dicts()
        [{'a': 'bc', 'b': 'c'}]
        """
        return call("substring", self, startPos, length)

    # ---- the names Polars and PySpark give the same things
    eq = __eq__
    ne = __ne__
    lt = __lt__
    le = __le__
    gt = __gt__
    ge = __ge__
    add = __add__
    sub = __sub__
    mul = __mul__
    truediv = __truediv__
    floordiv = __floordiv__
    mod = __mod__
    not_ = __invert__
    eq_missing = eq_null_safe
    isNull = is_null
    isNotNull = is_not_null
    eqNullSafe = eq_null_safe


helpful(Operators, space="")
