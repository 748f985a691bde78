"""Functions of numbers as methods: ``col("x").sqrt()``, by the names of Polars and PySpark.

One job: mathematics, bits, and what is made of them for users: `clip`, `fill_nan`, `is_finite`.
Angles, roots and logarithms are float64; outside its domain a function is NaN or null, as in Spark.
"""

from __future__ import annotations

import math
from typing import Self

import pyarrow as pa

from fabric.clients.dataframe.expressions.types import Expression, IntoExpr, call, call_of, to_node
from fabric.clients.dataframe.methods.values import called_as
from fabric.plan import expr as plan


class NumberMethods(Expression):
    """Of numbers; null stays null.

    Examples
    --------
    >>> from fabric import col
    >>> (col("x") ** 2 + col("y") ** 2).sqrt()
    (col("x") ** 2 + col("y") ** 2).sqrt()
    """

    __slots__ = ()

    def sqrt(self) -> Self:
        """The square root; NaN below 0."""
        return call("sqrt", self)

    def cbrt(self) -> Self:
        """The cubic root."""
        return call("cbrt", self)

    def exp(self) -> Self:
        """e to the power of the value."""
        return call("exp", self)

    def expm1(self) -> Self:
        """e to the power of the value, less 1."""
        return call("expm1", self)

    def ln(self) -> Self:
        """The natural logarithm; null at 0 and below."""
        return call("ln", self)

    def log10(self) -> Self:
        """The logarithm to base 10; null at 0 and below."""
        return call("log10", self)

    def log2(self) -> Self:
        """The logarithm to base 2; null at 0 and below."""
        return call("log2", self)

    def log1p(self) -> Self:
        """The natural logarithm of the value + 1; null at -1 and below."""
        return call("log1p", self)

    def sign(self) -> Self:
        """-1.0, 0.0 or 1.0."""
        return call("sign", self)

    def sin(self) -> Self:
        """The sine of an angle in radians."""
        return call("sin", self)

    def cos(self) -> Self:
        """The cosine of an angle in radians."""
        return call("cos", self)

    def tan(self) -> Self:
        """The tangent of an angle in radians."""
        return call("tan", self)

    def cot(self) -> Self:
        """The cotangent of an angle in radians."""
        return call("cot", self)

    def asin(self) -> Self:
        """The angle with this sine; NaN outside -1 to 1."""
        return call("asin", self)

    def acos(self) -> Self:
        """The angle with this cosine; NaN outside -1 to 1."""
        return call("acos", self)

    def atan(self) -> Self:
        """The angle with this tangent."""
        return call("atan", self)

    def sinh(self) -> Self:
        """The hyperbolic sine."""
        return call("sinh", self)

    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        return call("cosh", self)

    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        return call("tanh", self)

    def asinh(self) -> Self:
        """The inverse hyperbolic sine."""
        return call("asinh", self)

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine; NaN below 1."""
        return call("acosh", self)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent; NaN outside -1 to 1."""
        return call("atanh", self)

    def degrees(self) -> Self:
        """An angle in radians as degrees."""
        return call("degrees", self)

    def radians(self) -> Self:
        """An angle in degrees as radians."""
        return call("radians", self)

    def atan2(self, x: IntoExpr) -> Self:
        """The angle of the point (x, value) in radians."""
        return call("atan2", self, x)

    def hypot(self, other: IntoExpr) -> Self:
        """The square root of the sum of both squares."""
        return call("hypot", self, other)

    def factorial(self) -> Self:
        """1 * 2 * ... * value; null below 0 and above 20."""
        return call("factorial", self)

    def bround(self, decimals: int = 0) -> Self:
        """Rounded to `decimals` digits, half to even."""
        return call("bround", self, decimals)

    def width_bucket(self, low: IntoExpr, high: IntoExpr, n_buckets: IntoExpr) -> Self:
        """Which of `n_buckets` equal parts of `low` to `high` holds the value; 0 is before them."""
        return call("width_bucket", self, low, high, n_buckets)

    def pow(self, exponent: IntoExpr) -> Self:
        """``**``: of integers an int64, exactly; an error where it does not fit. Else a float64.

        An exponent below 0 that is a constant gives a float64, one in a column of integers is an
        error. Spark's power, always a float64, is ``functions.pow``.

        >>> from fabric import col
        >>> col("x").pow(2), 2 ** col("x"), col("x") ** -1
        (col("x") ** 2, lit(2) ** col("x"), col("x") ** -1)
        """
        return call("exact_power", self, exponent)

    def log(self, base: IntoExpr = math.e) -> Self:
        """The logarithm to `base`; null where one of them is 0 or below.

        >>> from fabric import col
        >>> col("x").log(2), col("x").log()
        (col("x").log(2), col("x").ln())
        """
        return (
            self.ln()
            if isinstance(base, float) and base == math.e
            else call_of(self, "log", base, self)
        )

    def pmod(self, divisor: IntoExpr) -> Self:
        """The remainder, not below 0 unless `divisor` is."""
        return call("pmod", self, divisor)

    def clip(self, lower: IntoExpr = None, upper: IntoExpr = None) -> Self:
        """The value, but at least `lower` and at most `upper`; null stays null, and NaN is NaN
        beside numbers (of a column as `upper`, NaN is larger).

        >>> from fabric import col
        >>> col("x").clip(0)
        when(col("x") < 0).then(0).otherwise(col("x"))
        """
        node = to_node(self)
        number = isinstance(upper, int | float) and not isinstance(upper, bool)
        kept = [(plan.Call("is_nan", (node,)), node)] if number else []
        branches = kept + [
            (plan.Call(compare, (node, to_node(bound))), to_node(bound))
            for compare, bound in (("lt", lower), ("gt", upper))
            if bound is not None
        ]
        return self._of(called_as(node, plan.Case(tuple(branches), node)) if branches else node)

    def fill_nan(self, value: IntoExpr) -> Self:
        """The value, or `value` where it is NaN.

        >>> from fabric import col
        >>> col("x").fill_nan(None)
        when(~col("x").is_nan()).then(col("x"))
        """
        node = to_node(self)
        known = plan.Call("not", (plan.Call("is_nan", (node,)),))
        return self._of(plan.Case(((known, node),), to_node(value)))

    def is_not_nan(self) -> Self:
        """True where the value is not NaN, true where it is null."""
        return call("not", call("is_nan", self))

    def is_finite(self) -> Self:
        """True where the value is neither infinite nor NaN; null where it is null."""
        return call("lt", self._size(), math.inf)

    def is_infinite(self) -> Self:
        """True where the value is infinite; null where it is null."""
        return call("eq", self._size(), math.inf)

    def _size(self) -> Self:
        return call("abs", self._of(plan.Cast(to_node(self), pa.float64())))

    def bitwise_and(self, other: IntoExpr) -> Self:
        """The bits that both integers have."""
        return call("bitwise_and", self, other)

    def bitwise_or(self, other: IntoExpr) -> Self:
        """The bits that one of both integers has."""
        return call("bitwise_or", self, other)

    def bitwise_xor(self, other: IntoExpr) -> Self:
        """The bits that just one of both integers has."""
        return call("bitwise_xor", self, other)

    def bitwise_not(self) -> Self:
        """The other bits."""
        return call("bitwise_not", self)

    def shift_left(self, n_bits: IntoExpr) -> Self:
        """The bits moved `n_bits` to the left; an int32 or int64."""
        return call("shift_left", self, n_bits)

    def shift_right(self, n_bits: IntoExpr) -> Self:
        """The bits moved `n_bits` to the right, the sign kept."""
        return call("shift_right", self, n_bits)

    def shift_right_unsigned(self, n_bits: IntoExpr) -> Self:
        """The bits moved `n_bits` to the right, filled up with zeros."""
        return call("shift_right_unsigned", self, n_bits)

    def bit_count(self) -> Self:
        """How many of 64 bits are set."""
        return call("bit_count", self)

    def hash(self, *others: IntoExpr) -> Self:
        """The 64 bits that place a row, of the value and `others`; the same everywhere."""
        return call("hash", self, *others)

    __pow__ = pow

    def __rpow__(self, base: IntoExpr) -> Self:
        return call_of(self, "exact_power", base, self)

    arcsin = asin
    arccos = acos
    arctan = atan
    arcsinh = asinh
    arccosh = acosh
    arctanh = atanh
    signum = sign
    bitwise_count_ones = bit_count
    bitwiseAND = bitwise_and
    bitwiseOR = bitwise_or
    bitwiseXOR = bitwise_xor
