"""Evaluate expressions with the meaning of Spark 4.3 in ANSI mode.

`arrow/` holds the one definition of every function, as pyarrow.compute kernels over a batch;
`datafusion/` lowers an expression to DataFusion natively where that means the same, and wraps the
Arrow definition as a scalar UDF where it does not. `tests/golden` holds both, and a live Spark, to
one table.
"""
