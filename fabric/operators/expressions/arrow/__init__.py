"""The one definition of every function, on pyarrow.compute: `compile_expr`.

compile.py   walks an expression, binds functions to types
lazy.py      what is evaluated on which rows
frame.py     rows and their flat columns
*            the functions, one family a file; `casts/` one kind of target a file
"""

from fabric.operators.expressions.arrow.compile import compile_expr

__all__ = ["compile_expr"]
