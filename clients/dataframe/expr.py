"""The expression users write with: operators, methods and the namespaces: str dt list struct.

One job: turn Python operators into plan expressions. Nothing is computed and no column is looked up
here; the DataFrame method that takes the expression checks names and types at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from fabric.clients.dataframe.aggregate_methods import AggregateMethods
from fabric.clients.dataframe.calls import helpful, suggesting
from fabric.clients.dataframe.literal import DTypeLike, to_dtype, to_literal
from fabric.clients.dataframe.names import text
from fabric.clients.dataframe.number_methods import NumberMethods
from fabric.clients.dataframe.order import Order
from fabric.clients.dataframe.value_methods import ValueMethods
from fabric.clients.dataframe.window_methods import WindowMethods
from fabric.errors import PlanError
from fabric.plan import expr as plan

if TYPE_CHECKING:
    from fabric.clients.dataframe.dates import DateTimeMethods
    from fabric.clients.dataframe.lists import ListMethods
    from fabric.clients.dataframe.strings import StringMethods
    from fabric.clients.dataframe.structs import StructMethods

_NO_TRUTH = (
    "an expression has no truth value before the job runs; write & for 'and', | for 'or', ~ for "
    '\'not\', with each comparison in brackets: (col("a") > 1) & (col("b") < 2); write '
    ".between(1, 5) for 1 <= x <= 5 and .is_in([...]) for 'in'; the expression was: "
)


_CLOSED = {
    "both": ("ge", "le"), "left": ("ge", "lt"), "right": ("gt", "le"), "none": ("gt", "lt"),
}  # fmt: skip
Text = str  # inside the class `str` is the namespace


def to_node(value: Any) -> plan.Expr:
    """The plan expression of an `Expr` or of a plain Python constant; an inner alias is dropped."""
    if isinstance(value, Expr):
        return value.node.input if isinstance(value.node, plan.Alias) else value.node
    if isinstance(value, Order):
        raise PlanError(f"{value!r} is an order; use it in sort(...) only")
    if hasattr(type(value), "expand"):
        raise PlanError(
            f"{value!r} is several columns, and here is room for one; what is done to each of them "
            "is written behind it"
        )
    return to_literal(value)


def call(function: str, *args: Any) -> Expr:
    """Registry function `function` of `args`, each an expression or a constant."""
    return Expr(plan.Call(function, tuple(to_node(arg) for arg in args)))


def as_column(value: Any) -> Expr:
    """An `Expr` as it is, a string as the column of that name, all else as a constant."""
    if isinstance(value, Expr):
        return value
    return Expr(plan.Column(value)) if isinstance(value, Text) else Expr(to_literal(value))


class Expr(AggregateMethods, WindowMethods, NumberMethods, ValueMethods):
    """A column to be: read it from the input, compute it, name it.

    Examples
    --------
    >>> from fabric import col
    >>> (col("distance") / col("air_time") * 60).alias("mph")
    (col("distance") / col("air_time") * 60).alias("mph")
    """

    __slots__ = ("node",)
    __hash__: ClassVar[None]  # type: ignore[assignment]  # `==` builds an expression

    def __init__(self, node: plan.Expr) -> None:
        self.node = node

    # ---- arithmetic: int / int is a fraction, // and % floor as in Python, overflow is an error
    def __add__(self, other: Any) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return call("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return call("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return call("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return call("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return call("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return call("floor_quotient", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return call("floor_quotient", other, self)

    def __mod__(self, other: Any) -> Expr:
        return call("floor_remainder", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return call("floor_remainder", other, self)

    def __neg__(self) -> Expr:
        return call("negate", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    # ---- comparison: null compares to null, NaN equals NaN and is the largest
    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return call("ne", self, other)

    def __lt__(self, other: Any) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return call("ge", self, other)

    # ---- boolean
    def __and__(self, other: Any) -> Expr:
        return call("and", self, other)

    def __xor__(self, other: Any) -> Expr:
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

    def __round__(self, digits: int = 0) -> Expr:
        return self.round(digits)

    def __rand__(self, other: Any) -> Expr:
        return call("and", other, self)

    def __or__(self, other: Any) -> Expr:
        return call("or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return call("or", other, self)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __bool__(self) -> NoReturn:
        raise PlanError(_NO_TRUTH + repr(self))

    def __iter__(self) -> NoReturn:
        raise PlanError(f"an expression can't be iterated: {self!r}; give a list of expressions")

    def __repr__(self) -> Text:
        from fabric.plan.printer import expr_text

        return expr_text(self.node)

    # ---- names and types
    def alias(self, name: Text) -> Expr:
        """The same values under the output name `name`."""
        return Expr(plan.Alias(to_node(self), text(name, "alias", "name")))

    def cast(self, dtype: DTypeLike, *, strict: bool = True) -> Expr:
        """Convert; a value that `dtype` can't hold fails the job, or is null when not `strict`.

        >>> from fabric import col
        >>> col("price").cast("decimal(10, 2)")
        col("price").cast("decimal128(10, 2)")
        """
        return Expr(plan.Cast(to_node(self), to_dtype(dtype), not strict))

    def try_cast(self, dtype: DTypeLike) -> Expr:
        """Convert; a value that `dtype` can't hold is null."""
        return self.cast(dtype, strict=False)

    # ---- nulls and membership
    def is_null(self) -> Expr:
        """True where the value is null."""
        return call("is_null", self)

    def is_not_null(self) -> Expr:
        """True where the value is not null."""
        return call("is_not_null", self)

    def is_nan(self) -> Expr:
        """True where the value is NaN, false where it is null."""
        return call("is_nan", self)

    def is_in(self, values: Iterable[Any]) -> Expr:
        """True where the value is one of `values`; SQL ``IN``, so null when it can't be known.

        >>> from fabric import col
        >>> col("origin").is_in(["JFK", "LGA"])
        col("origin").is_in(["JFK", "LGA"])
        """
        if isinstance(values, Text | Expr) or not isinstance(values, Iterable):
            raise PlanError(f"is_in takes a list of constants, got {values!r}; write is_in([...])")
        return Expr(plan.IsIn(to_node(self), tuple(to_literal(value) for value in values)))

    def isin(self, *values: Any) -> Expr:
        """`is_in` with the values as a list or one by one, as in PySpark."""
        one = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        return self.is_in(values[0] if one else values)

    def between(self, lower: Any, upper: Any) -> Expr:
        """True where ``lower <= value <= upper``; a text is that text, as in PySpark."""
        return call("and", call("ge", self, lower), call("le", self, upper))

    def is_between(self, lower_bound: Any, upper_bound: Any, closed: Text = "both") -> Expr:
        """True between two bounds, as in Polars: a text is a column, ``lit("x")`` is text.

        `closed` says which bounds belong to it: ``"both"``, ``"left"``, ``"right"``, ``"none"``.

        >>> from fabric import col
        >>> col("x").is_between("low", 10, closed="left")
        (col("x") >= col("low")) & (col("x") < 10)
        """
        if closed not in _CLOSED:
            raise PlanError(f"is_between has no closed={closed!r}; use {', '.join(_CLOSED)}")
        lower, upper = _CLOSED[closed]
        low, high = as_column(lower_bound), as_column(upper_bound)
        return call("and", call(lower, self, low), call(upper, self, high))

    def eq_null_safe(self, other: Any) -> Expr:
        """Equality where null equals null and the answer is never null."""
        return call("eq_null_safe", self, other)

    def ne_missing(self, other: Any) -> Expr:
        """Inequality where null equals null and the answer is never null."""
        return call("not", call("eq_null_safe", self, other))

    # ---- numbers
    def abs(self) -> Expr:
        """The absolute value."""
        return call("abs", self)

    def round(self, decimals: int = 0) -> Expr:
        """Rounded half away from zero to `decimals` digits."""
        return call("round", self, decimals)

    def floor(self) -> Expr:
        """The largest integer that is not above the value."""
        return call("floor", self)

    def ceil(self) -> Expr:
        """The smallest integer that is not below the value."""
        return call("ceil", self)

    # ---- order
    def asc(self) -> Order:
        """Ascending, nulls first."""
        return Order(to_node(self), descending=False, nulls_last=False)

    def desc(self) -> Order:
        """Descending, nulls last."""
        return Order(to_node(self), descending=True, nulls_last=True)

    # ---- texts, as methods of PySpark's columns; a text is that text, `contains` takes no pattern
    def contains(self, other: Any) -> Expr:
        """True where `other` occurs in the text, as in PySpark; patterns: ``.str.contains``.

        >>> from fabric import col
        >>> col("name").contains("a.b")
        col("name").str.contains("a.b", literal=True)
        """
        return call("contains", self, other)

    def startswith(self, other: Any) -> Expr:
        """True where the text begins with `other`."""
        return call("starts_with", self, other)

    def endswith(self, other: Any) -> Expr:
        """True where the text ends with `other`."""
        return call("ends_with", self, other)

    def like(self, other: Text) -> Expr:
        """True where the whole text is like `other`: % any text, _ any character."""
        return call("like", self, other)

    def ilike(self, other: Text) -> Expr:
        """As `like`, in lower case."""
        return call("ilike", self, other)

    def rlike(self, other: Text) -> Expr:
        """True where the regular expression of Spark matches somewhere."""
        return call("regexp_contains", self, other)

    def substr(self, startPos: Any, length: Any) -> Expr:
        """`length` characters from `startPos`, counted from 1 as in SQL; below 0 from the end."""
        return call("substring", self, startPos, length)

    # ---- namespaces
    @property
    def str(self) -> StringMethods:
        """Functions of strings."""
        from fabric.clients.dataframe.strings import StringMethods

        return StringMethods(self)

    @property
    def dt(self) -> DateTimeMethods:
        """Functions of dates and timestamps."""
        from fabric.clients.dataframe.dates import DateTimeMethods

        return DateTimeMethods(self)

    @property
    def list(self) -> ListMethods:
        """Functions of lists."""
        from fabric.clients.dataframe.lists import ListMethods

        return ListMethods(self)

    @property
    def struct(self) -> StructMethods:
        """The fields of structs."""
        from fabric.clients.dataframe.structs import StructMethods

        return StructMethods(self)

    @property
    def name(self) -> ExprName:
        """What they are called: ``.name.suffix("_x")``, or ``.name("x")``, which is `alias`."""
        return ExprName(self)

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


class ExprName:
    """``.name``: what an expression is called, from the name it would have."""

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __call__(self, name: Text) -> Expr:
        """The same as `Expr.alias`, as in PySpark."""
        return self._expr.alias(name)

    def suffix(self, text: Text) -> Expr:
        """The name with `text` behind it.

        >>> from fabric import col
        >>> col("a").sum().name.suffix("_sum")
        col("a").sum().alias("a_sum")
        """
        return self.map(lambda name: name + _text("suffix", text))

    def prefix(self, text: Text) -> Expr:
        """The name with `text` before it."""
        return self.map(lambda name: _text("prefix", text) + name)

    def to_lowercase(self) -> Expr:
        """The name in small letters."""
        return self.map(Text.lower)

    def to_uppercase(self) -> Expr:
        """The name in capital letters."""
        return self.map(Text.upper)

    def keep(self) -> Expr:
        """The name of the first column that is read, whatever the alias."""
        return self._expr.alias(plan.output_name(to_node(self._expr)))

    def map(self, function: Callable[[Text], Text]) -> Expr:
        """The name as `function` makes it."""
        old = plan.output_name(self._expr.node)
        new = function(old)
        if not isinstance(new, Text):
            raise PlanError(f"name.map takes a function from text to text, got {new!r} of {old!r}")
        return self._expr.alias(new)


def _text(method: Text, value: Any) -> Text:
    if not isinstance(value, Text):
        raise PlanError(f"name.{method} takes a text, got {value!r}")
    return value


@cache
def _elsewhere() -> dict[str, str]:
    """Names of the namespaces, and of other libraries, as they are written here."""
    from fabric.clients.dataframe.dates import DateTimeMethods
    from fabric.clients.dataframe.lists import ListMethods
    from fabric.clients.dataframe.strings import StringMethods

    found = {
        "apply": 'udf(function, returns="int64")(col("x"))',
        "map_elements": 'udf(function, returns="int64")(col("x"))',
        "map_batches": 'arrow_udf(function, returns="int64")(col("x"))',
        "astype": '.cast("int64")',
        "implode": ".collect_list()",
        "isna": ".is_null()",
        "mode": 'df.group_by("x").len().top_k(1, "len")',
        "product": 'col("x").ln().sum().exp(), of numbers above 0',
        "notna": ".is_not_null()",
    }
    for space, kind in (("list", ListMethods), ("dt", DateTimeMethods), ("str", StringMethods)):
        names = (name for name in dir(kind) if not name.startswith("_"))
        found |= {name: f".{space}.{name}" for name in names}
    return found | {
        "unique": "df.select(...).distinct(), or .list.unique() of a list",
        "sort": "df.sort(...), or .list.sort() of a list",
        "reverse": "df.sort(..., descending=True), .list.reverse() or .str.reverse()",
        "head": "df.head(5), .list.head(5) or .str.head(5)",
        "len": ".count(), .list.len() of a list or .str.len_chars() of a text",
        "filter": "when(condition).then(col(...)), or df.filter(condition)",
        "fillna": ".fill_null(0)",
    }


helpful(Expr, AggregateMethods, WindowMethods, NumberMethods, ValueMethods, space="")
suggesting(Expr, "an expression", _elsewhere)
