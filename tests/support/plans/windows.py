"""Random window functions whose answer does not depend on the order of equal rows.

One job: the `Over`s of one node. What looks at places (row_number, lag, frames of rows) gets an
order by all columns, so that rows at equal places are equal; where a column has no order, only what
takes equals together is drawn.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from fabric.plan.expr import Agg, Alias, Column, Expr, Frame, Literal, Over, SortKey
from fabric.plan.types import is_nested, numeric
from tests.support.plans.aggregates import close_agg, random_agg
from tests.support.plans.expressions import Expressions, family, integer

_RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_OFFSETS = (None, -3, -1, 0, 1, 4)


def random_keys(rng: Random, names: list[str]) -> tuple[SortKey, ...]:
    """Sort keys over columns, either way up, nulls at either end."""
    return tuple(SortKey(Column(name), rng.random() < 0.5, rng.random() < 0.5) for name in names)


def random_overs(maker: Expressions, names: list[str], *, close: bool) -> tuple[Alias, ...]:
    """One window function for each of `names`; with `close` those whose last digit is open."""
    rng, schema = maker.rng, maker.schema
    n_keys = rng.choice((0, 1, 1, 1, 2))
    by = tuple(Column(n) for n in rng.sample(schema.names, min(n_keys, len(schema))))
    return tuple(Alias(_over(maker, by, close=close), name) for name in names)


def _over(maker: Expressions, by: tuple[Expr, ...], *, close: bool) -> Over:
    rng = maker.rng
    ordered = [field.name for field in maker.schema if not is_nested(field.type)]
    is_total = len(ordered) == len(maker.schema)
    if is_total and rng.random() < 0.6:
        order = random_keys(rng, rng.sample(ordered, len(ordered)))
        return _placed(maker, by, order, close=close)
    return _by_equals(maker, by, ordered, close=close)


def _placed(
    maker: Expressions, by: tuple[Expr, ...], order: tuple[SortKey, ...], *, close: bool
) -> Over:
    """Over rows of which each has its place."""
    rng = maker.rng
    frame = _frame(rng, "rows") if rng.random() < 0.6 else None
    if close:
        return Over(close_agg(maker, window=True), by, order, frame)
    column = Column(rng.choice(maker.schema.names))
    flag = Literal(rng.random() < 0.5, pa.bool_())
    match rng.randrange(6):
        case 0:
            function = rng.choice((*_RANKS, *["row_number"] * 4, "ntile"))
            args = (integer(rng.randint(1, 7)),) if function == "ntile" else ()
            return Over(Agg(function, None, args), by, order)
        case 1 | 2:
            return Over(_shifted(maker, column), by, order)
        case 3:
            function = rng.choice(("first_value", "last_value"))
            return Over(Agg(function, column, (flag,)), by, order, frame)
        case 4:
            return Over(Agg("nth_value", column, (integer(rng.randint(1, 3)), flag)), by, order,
                        frame)  # fmt: skip
        case _:
            return Over(random_agg(maker, window=True), by, order, frame)


def _shifted(maker: Expressions, column: Column) -> Agg:
    """lag or lead, now and then with an offset, now and then with a default."""
    rng = maker.rng
    function = rng.choice(("lag", "lead"))
    kind = family(maker.schema.field(column.name).type)
    args: tuple[Expr, ...] = (integer(rng.randint(-2, 3)),) if rng.random() < 0.5 else ()
    if args and kind in ("string", "float", "boolean"):
        default = maker.constant(kind)
        wide = maker.schema.field(column.name).type
        args = (*args, Literal(default.value, wide) if kind == "float" else default)
    return Agg(function, column, args)


def _by_equals(
    maker: Expressions, by: tuple[Expr, ...], ordered: list[str], *, close: bool
) -> Over:
    """Over a whole partition, or with an order in which equals go together."""
    rng = maker.rng
    agg = close_agg(maker, window=True) if close else random_agg(maker, window=True)
    if not ordered or rng.random() < 0.3:
        return Over(agg, by)
    numbers = [n for n in ordered if _measures(maker.schema.field(n).type)]
    if numbers and rng.random() < 0.5:
        order = random_keys(rng, [rng.choice(numbers)])
        return Over(agg, by, order, _frame(rng, "range"))
    order = random_keys(rng, rng.sample(ordered, rng.randint(1, len(ordered))))
    if not close and rng.random() < 0.4:
        return Over(Agg(rng.choice(_RANKS), None), by, order)
    frame = rng.choice((None, Frame("range", None, 0), Frame("range", 0, None)))
    return Over(agg, by, order, frame)


def _measures(dtype: pa.DataType) -> bool:
    """Whether a range may have a distance in values of `dtype`."""
    number = numeric(dtype)
    return number is not None and not pa.types.is_decimal(number)


def _frame(rng: Random, unit: str) -> Frame:
    ends = [rng.choice(_OFFSETS), rng.choice(_OFFSETS)]
    if None not in ends:
        ends.sort()
    return Frame("rows" if unit == "rows" else "range", *ends)
