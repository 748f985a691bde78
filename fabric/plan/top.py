"""Filters that keep the first rows of each partition of a window.

One job: `first_rows`, by which engines and planner see that most rows need not be numbered at all.
"""

from __future__ import annotations

from fabric.plan.expr import Call, Column, Expr, Literal, output_name
from fabric.plan.nodes import Filter, Window
from fabric.plan.nodes.window import unaliased_over

_COUNTED = ("row_number", "rank")
_NUMBERS = (*_COUNTED, "dense_rank")
_TURNED = {"ge": "le", "gt": "lt", "eq": "eq"}
_ROWS_MAX = 64


def first_rows(node: Filter) -> int | None:
    """How many first rows of each partition can pass `node`, a filter right above a window.

    Rows with equal order keys count as one place: of those all may pass. None when it does not
    bound the row number or rank, or when the window has a function that sees later rows.

    >>> from fabric.plan.expr import Agg, Alias, Over, SortKey
    >>> import pyarrow as pa
    >>> from fabric.plan.nodes import StageInput
    >>> over = Over(Agg("row_number", None), (), (SortKey(Column("a")),))
    >>> source = StageInput(0, pa.schema([("a", pa.int64())]))
    >>> window = Window(source, (Alias(over, "n"),))
    >>> first_rows(Filter(window, Call("le", (Column("n"), Literal(3, pa.int32())))))
    3
    """
    window = node.input
    if not isinstance(window, Window):
        return None
    overs = {output_name(expr): unaliased_over(expr) for expr in window.exprs}
    first = next(iter(overs.values()))
    alike = all(
        over.input.function in _NUMBERS and over.order_by == first.order_by
        for over in overs.values()
    )
    if not alike:
        return None
    counted = [name for name, over in overs.items() if over.input.function in _COUNTED]
    bounds = [_bound(part, counted) for part in _conjuncts(node.predicate)]
    found = min((bound for bound in bounds if bound is not None), default=None)
    return found if found is not None and 0 < found <= _ROWS_MAX else None


def _conjuncts(predicate: Expr) -> list[Expr]:
    """The parts of a conjunction, the whole among them."""
    inside = [predicate]
    for part in inside:
        if isinstance(part, Call) and part.function == "and":
            inside.extend(part.args)
    return inside


def _bound(part: Expr, names: list[str]) -> int | None:
    """The largest whole number that `part` lets through for one of `names`."""
    if not isinstance(part, Call) or len(part.args) != 2:
        return None
    left, right = part.args
    function = part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _TURNED.get(function, "")
    if not (isinstance(left, Column) and isinstance(right, Literal) and left.name in names):
        return None
    if type(right.value) is not int:
        return None
    return {"le": right.value, "lt": right.value - 1, "eq": right.value}.get(function)
