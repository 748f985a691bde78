"""Functions of numbers as float64: sqrt … atanh, power, log; factorial, width_bucket; samples.

One job: their types. Outside its domain a function is NaN or null, as in Spark; none raises.
`random` is the one function whose answer differs from call to call (`Function.volatile`); it only
stands in what `sample` is lowered to. Its second argument tells two samples of one plan apart, so
that no rule takes them for the same.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.functions.registry import Arguments, D, Function, I, L, Signature, takes

_SAME = (
    ("sqrt", "the square root; NaN below 0"),
    ("exp", "e to the power of a"),
    ("expm1", "e to the power of a, less 1"),
    ("sin", "the sine of an angle in radians"),
    ("cos", "the cosine"),
    ("tan", "the tangent"),
    ("asin", "the angle whose sine is a; NaN outside -1 to 1"),
    ("acos", "the angle whose cosine is a; NaN outside -1 to 1"),
    ("atan", "the angle whose tangent is a"),
    ("sinh", "the hyperbolic sine"),
    ("cosh", "the hyperbolic cosine"),
    ("tanh", "the hyperbolic tangent"),
    ("asinh", "the inverse hyperbolic sine"),
    ("acosh", "the inverse hyperbolic cosine; NaN below 1"),
    ("atanh", "the inverse hyperbolic tangent; NaN outside -1 to 1"),
)
"""Those that Arrow and Spark have by the same name."""
_UNARY = (
    ("cbrt", "the cubic root"),
    ("ln", "the natural logarithm; null at 0 and below"),
    ("log10", "the logarithm to base 10; null at 0 and below"),
    ("log2", "the logarithm to base 2; null at 0 and below"),
    ("log1p", "the natural logarithm of a + 1; null at -1 and below"),
    ("sign", "-1.0, 0.0 or 1.0"),
    ("cot", "the cotangent"),
    ("degrees", "an angle in radians as degrees"),
    ("radians", "an angle in degrees as radians"),
)


def _random(args: Arguments) -> Signature:
    return Signature((args.types[0], pa.int64()), pa.float64())


FUNCTIONS = (
    *(Function(name, (1, 1), takes(name, (D,), D), doc, total=True, text=f".{name}", arrow=name,
               spark=name) for name, doc in _SAME),
    *(Function(name, (1, 1), takes(name, (D,), D), doc, total=True, text=f".{name}", spark=name)
      for name, doc in _UNARY),
    Function("power", (2, 2), takes("power", (D, D), D), "a to the power of b", total=True,
             text="pow", spark="power"),
    Function("log", (2, 2), takes("log", (D, D), D),
             "the logarithm of b to base a; null when one is 0 or below", total=True,
             text=".log", subject=1, spark="log"),
    Function("atan2", (2, 2), takes("atan2", (D, D), D), "the angle of the point (b, a)",
             total=True, text=".atan2", spark="atan2"),
    Function("hypot", (2, 2), takes("hypot", (D, D), D), "the square root of a² + b²", total=True,
             text=".hypot", spark="hypot"),
    Function("factorial", (1, 1), takes("factorial", (I,), L),
             "1 * 2 * … * a; null below 0 and above 20", total=True,
             text=".factorial", spark="factorial"),
    Function("width_bucket", (4, 4), takes("width_bucket", (D, D, D, L), L),
             "which of d equal parts of b to c holds a: 0 before the first, d + 1 after the last",
             total=True, text=".width_bucket", spark="width_bucket"),
    Function("random", (2, 2), _random,
             "a number from 0 to below 1, another for each row of a and in each run; b names it",
             constants=(1,), volatile=True),
    Function("poisson", (2, 2), takes("poisson", (D, D), I),
             "the least number of events that is more likely than a not to be exceeded, where b "
             "are expected; null outside 0 <= a < 1, 0 <= b < 2**30", total=True),
)  # fmt: skip
