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

    Angles, roots and logarithms are float64; angles are in radians, but for `degrees`. Outside
    its domain a logarithm is null, and a root or an angle is NaN, as in Spark.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> x = col("x")
    >>> (x**2 + col("y") ** 2).sqrt()
    (col("x") ** 2 + col("y") ** 2).sqrt()
    >>> DataFrame({"x": [0, None]}).select(a=x.sin(), b=x.exp(), c=x.acosh(), d=x.log2()).to_dicts()
    [{'a': 0.0, 'b': 1.0, 'c': nan, 'd': None}, {'a': None, 'b': None, 'c': None, 'd': None}]
    """

    __slots__ = ()

    def sqrt(self) -> Self:
        """The square root; NaN below 0.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [9, -1, None]}).select(col("x").sqrt()).to_dicts()
        [{'x': 3.0}, {'x': nan}, {'x': None}]
        """
        return call("sqrt", self)

    def cbrt(self) -> Self:
        """The cubic root, also of what is below 0.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-8]}).select(col("x").cbrt()).to_dicts()
        [{'x': -2.0}]
        """
        return call("cbrt", self)

    def exp(self) -> Self:
        """e to the power of the value; infinite where the result is too large for a float64."""
        return call("exp", self)

    def expm1(self) -> Self:
        """e to the power of the value, less 1; exact also close to 0.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1e-20]}).select(a=col("x").expm1(), b=col("x").exp() - 1).to_dicts()
        [{'a': 1e-20, 'b': 0.0}]
        """
        return call("expm1", self)

    def ln(self) -> Self:
        """The natural logarithm; null at 0 and below.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 0]}).select(a=col("x").ln(), b=col("x").log1p().round(3)).to_dicts()
        [{'a': 0.0, 'b': 0.693}, {'a': None, 'b': 0.0}]
        """
        return call("ln", self)

    def log10(self) -> Self:
        """The logarithm to base 10; null at 0 and below.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1000, 0]}).select(col("x").log10()).to_dicts()
        [{'x': 3.0}, {'x': None}]
        """
        return call("log10", self)

    def log2(self) -> Self:
        """The logarithm to base 2; null at 0 and below, NaN of NaN."""
        return call("log2", self)

    def log1p(self) -> Self:
        """The natural logarithm of the value + 1, exact also close to 0; null at -1 and below."""
        return call("log1p", self)

    def sign(self) -> Self:
        """-1.0, 0.0 or 1.0, a float64 of integers too.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-3, 0]}).select(col("x").sign()).to_dicts()
        [{'x': -1.0}, {'x': 0.0}]
        """
        return call("sign", self)

    def sin(self) -> Self:
        """The sine of an angle in radians; NaN of an infinite value, as of `cos`, `tan`, `cot`."""
        return call("sin", self)

    def cos(self) -> Self:
        """The cosine of an angle in radians."""
        return call("cos", self)

    def tan(self) -> Self:
        """The tangent of an angle in radians."""
        return call("tan", self)

    def cot(self) -> Self:
        """The cotangent of an angle in radians; infinite at 0."""
        return call("cot", self)

    def asin(self) -> Self:
        """The angle with this sine, in radians from -pi/2 to pi/2; NaN outside -1 to 1."""
        return call("asin", self)

    def acos(self) -> Self:
        """The angle with this cosine, in radians from 0 to pi; NaN outside -1 to 1.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 2]}).select(a=col("x").acos(), b=col("x").asin()).to_dicts()
        [{'a': 0.0, 'b': 1.5707963267948966}, {'a': nan, 'b': nan}]
        """
        return call("acos", self)

    def atan(self) -> Self:
        """The angle with this tangent, in radians from -pi/2 to pi/2."""
        return call("atan", self)

    def sinh(self) -> Self:
        """The hyperbolic sine; infinite where the result is too large for a float64."""
        return call("sinh", self)

    def cosh(self) -> Self:
        """The hyperbolic cosine, at least 1."""
        return call("cosh", self)

    def tanh(self) -> Self:
        """The hyperbolic tangent, from -1 to 1."""
        return call("tanh", self)

    def asinh(self) -> Self:
        """The inverse hyperbolic sine."""
        return call("asinh", self)

    def acosh(self) -> Self:
        """The inverse hyperbolic cosine; NaN below 1."""
        return call("acosh", self)

    def atanh(self) -> Self:
        """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
        return call("atanh", self)

    def degrees(self) -> Self:
        """An angle in radians as degrees.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [0.0, -1.0]}).select(col("x").acos().degrees()).to_dicts()
        [{'x': 90.0}, {'x': 180.0}]
        """
        return call("degrees", self)

    def radians(self) -> Self:
        """An angle in degrees as radians.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [180]}).select(col("x").radians().cos()).to_dicts()
        [{'x': -1.0}]
        """
        return call("radians", self)

    def atan2(self, x: IntoExpr) -> Self:
        """The angle of the point (`x`, value) in radians, from -pi to pi.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"y": [1, 0]}).select(col("y").atan2(-1).degrees()).to_dicts()
        [{'y': 135.0}, {'y': 180.0}]
        """
        return call("atan2", self, x)

    def hypot(self, other: IntoExpr) -> Self:
        """The square root of the sum of both squares.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [3]}).select(col("x").hypot(4)).to_dicts()
        [{'x': 5.0}]
        """
        return call("hypot", self, other)

    def factorial(self) -> Self:
        """1 * 2 * ... * value; null below 0 and above 20.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [4, 21]}).select(col("x").factorial()).to_dicts()
        [{'x': 24}, {'x': None}]
        """
        return call("factorial", self)

    def bround(self, decimals: int = 0) -> Self:
        """Rounded to `decimals` digits, half to even; `round` rounds half away from zero.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [2.5, 3.5]}).select(col("x").bround()).to_dicts()
        [{'x': 2.0}, {'x': 4.0}]
        """
        return call("bround", self, decimals)

    def width_bucket(self, low: IntoExpr, high: IntoExpr, n_buckets: IntoExpr) -> Self:
        """Which of `n_buckets` equal parts of `low` to `high` holds the value.

        They are counted from 1; 0 is before all, ``n_buckets + 1`` at `high` and above.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"x": [-1, 0, 9, 10]})
        >>> df.select(col("x").width_bucket(0, 10, 5)).collect()["x"].to_pylist()
        [0, 1, 5, 6]
        """
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
        """The remainder, not below 0 unless `divisor` is.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [-7]}).select(a=col("x").pmod(3), b=col("x").pmod(-3)).to_dicts()
        [{'a': 2, 'b': -1}]
        """
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
        """True where the value is not NaN, true where it is null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [float("nan"), None]}).select(col("x").is_not_nan()).to_dicts()
        [{'x': False}, {'x': True}]
        """
        return call("not", call("is_nan", self))

    def is_finite(self) -> Self:
        """True where the value is neither infinite nor NaN; null where it is null.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1.0, float("nan")]}).select(col("x").is_finite()).to_dicts()
        [{'x': True}, {'x': False}]
        """
        return call("lt", self._size(), math.inf)

    def is_infinite(self) -> Self:
        """True where the value is infinite, also below 0; false of NaN, null of null."""
        return call("eq", self._size(), math.inf)

    def _size(self) -> Self:
        return call("abs", self._of(plan.Cast(to_node(self), pa.float64())))

    def bitwise_and(self, other: IntoExpr) -> Self:
        """The bits that both integers have; a boolean, a float or a uint64 is a PlanError.

        >>> from fabric import DataFrame, col
        >>> df, x = DataFrame({"x": [5]}), col("x")
        >>> df.select(a=x.bitwise_and(6), b=x.bitwise_or(6), c=x.bitwise_xor(6)).to_dicts()
        [{'a': 4, 'b': 7, 'c': 3}]
        """
        return call("bitwise_and", self, other)

    def bitwise_or(self, other: IntoExpr) -> Self:
        """The bits that at least one of both integers has; see `bitwise_and`."""
        return call("bitwise_or", self, other)

    def bitwise_xor(self, other: IntoExpr) -> Self:
        """The bits that just one of both integers has; see `bitwise_and`."""
        return call("bitwise_xor", self, other)

    def bitwise_not(self) -> Self:
        """The other bits, so that 0 becomes -1.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [5]}).select(col("x").bitwise_not()).to_dicts()
        [{'x': -6}]
        """
        return call("bitwise_not", self)

    def shift_left(self, n_bits: IntoExpr) -> Self:
        """The bits shifted `n_bits` to the left, modulo 64 (of an int32 modulo 32); never an error.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 5]}).select(col("x").shift_left(65)).to_dicts()
        [{'x': 2}, {'x': 10}]
        """
        return call("shift_left", self, n_bits)

    def shift_right(self, n_bits: IntoExpr) -> Self:
        """The bits shifted `n_bits` to the right; the sign stays, unlike in `shift_right_unsigned`.

        >>> from fabric import DataFrame, col
        >>> df, x = DataFrame({"x": [-8]}), col("x")
        >>> df.select(a=x.shift_right(1), b=x.shift_right_unsigned(1)).to_dicts()
        [{'a': -4, 'b': 9223372036854775804}]
        """
        return call("shift_right", self, n_bits)

    def shift_right_unsigned(self, n_bits: IntoExpr) -> Self:
        """The bits shifted `n_bits` to the right, filled with zeros; see `shift_right`."""
        return call("shift_right_unsigned", self, n_bits)

    def bit_count(self) -> Self:
        """How many of 64 bits are set; of a number below 0 those of its two's complement.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [7, -1]}).select(col("x").bit_count()).to_dicts()
        [{'x': 3}, {'x': 64}]
        """
        return call("bit_count", self)

    def hash(self, *others: IntoExpr) -> Self:
        """The 64 bits that place a row, of the value and `others`; the same everywhere.

        Null has a hash too.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"x": [1, 1, None]}).select(col("x").hash().count_distinct()).to_dicts()
        [{'x': 2}]
        """
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
