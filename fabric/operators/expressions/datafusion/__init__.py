"""Expressions inside DataFusion: `to_datafusion`, and `held` for filters.

lower.py   what DataFusion computes natively with Spark's meaning; the Arrow definition as a scalar
           UDF for all the rest
native.py  the native form of each function, by operand types
"""

from fabric.operators.expressions.datafusion.lower import held, to_datafusion

__all__ = ["held", "to_datafusion"]
