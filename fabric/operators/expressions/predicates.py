"""What a filter evaluates on which rows.

One job: `can_raise`, `split_filter`, `filter_expr`. A filter takes its conditions from the left and
goes on with a row only while they are true; null ends it as well as false. (In `and` as a value,
the right side is looked at when the left one is null.) It matters where a condition can raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from fabric.operators.expressions.arrow.compile import Compiler
from fabric.plan.expr import Call, Case, Expr, Literal

_FALSE = Literal(False, pa.bool_())


def can_raise(expr: Expr, schema: pa.Schema, compiler: Compiler | None = None) -> bool:
    """Whether some value can make `expr` an error; a `compiler` of `schema` may know already."""
    return not (compiler or Compiler(schema)).compile(expr).total


def split_filter(
    predicate: Expr, schema: pa.Schema, compiler: Compiler | None = None
) -> tuple[Expr | None, Expr | None]:
    """The leading conditions that can't raise, and the rest for the rows that pass those.

    Either is None when there is none of its kind. A `compiler` of `schema` may know them already.

    >>> from fabric.plan.expr import Column
    >>> schema = pa.schema([("a", pa.int64()), ("b", pa.bool_())])
    >>> sum_ = Call("eq", (Call("add", (Column("a"), Column("a"))), Literal(4, pa.int64())))
    >>> split_filter(Call("and", (Column("b"), sum_)), schema) == (Column("b"), sum_)
    True
    """
    compiler = compiler or Compiler(schema)
    parts = _conditions(predicate)
    raising = [i for i, part in enumerate(parts) if not compiler.compile(part).total]
    if not raising:
        return predicate, None
    first = raising[0]
    leading = reduce(lambda left, right: Call("and", (left, right)), parts[1:first], parts[0])
    return (leading if first else None), _while_true(parts[first:])


def filter_expr(predicate: Expr, schema: pa.Schema) -> Expr:
    """One expression that is true on the rows a filter keeps; itself when nothing can raise."""
    leading, rest = split_filter(predicate, schema)
    if rest is None:
        return predicate
    return rest if leading is None else _while_true([leading, rest])


def _while_true(parts: Sequence[Expr]) -> Expr:
    """Each part where all before it are true, else false."""
    last, *before = reversed(parts)
    return reduce(lambda later, part: Case(((part, later),), _FALSE), before, last)


def _conditions(predicate: Expr) -> list[Expr]:
    """The conditions joined by `and`, from the left."""
    found: list[Expr] = []
    stack = [predicate]
    while stack:
        part = stack.pop()
        if isinstance(part, Call) and part.function == "and":
            stack.extend(reversed(part.args))
        else:
            found.append(part)
    return found
