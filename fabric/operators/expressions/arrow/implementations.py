"""All scalar functions by the registry's names.

One job: collect the families. `and`, `or` and `coalesce` are not here: they are forms of
`lazy.py`.
"""

from __future__ import annotations

from fabric.operators.expressions.arrow import (
    arithmetic,
    bitwise,
    calendar,
    chance,
    comparison,
    dates,
    durations,
    encoding,
    epochs,
    extremes,
    hashing,
    math,
    regex,
    rounding,
    rust_patterns,
    strings,
    structs,
    texts,
    zones,
)
from fabric.operators.expressions.arrow.bound import Implementation
from fabric.operators.expressions.arrow.lists import access, build, combine, fold, order, sets

IMPLEMENTATIONS: dict[str, Implementation] = {
    **arithmetic.IMPLEMENTATIONS,
    **rounding.IMPLEMENTATIONS,
    **math.IMPLEMENTATIONS,
    **bitwise.IMPLEMENTATIONS,
    **strings.IMPLEMENTATIONS,
    **texts.IMPLEMENTATIONS,
    **regex.IMPLEMENTATIONS,
    **rust_patterns.IMPLEMENTATIONS,
    **encoding.IMPLEMENTATIONS,
    **hashing.IMPLEMENTATIONS,
    **chance.IMPLEMENTATIONS,
    **dates.IMPLEMENTATIONS,
    **comparison.IMPLEMENTATIONS,
    **extremes.IMPLEMENTATIONS,
    **calendar.IMPLEMENTATIONS,
    **durations.IMPLEMENTATIONS,
    **epochs.IMPLEMENTATIONS,
    **structs.IMPLEMENTATIONS,
    **zones.IMPLEMENTATIONS,
    **access.IMPLEMENTATIONS,
    **build.IMPLEMENTATIONS,
    **combine.IMPLEMENTATIONS,
    **fold.IMPLEMENTATIONS,
    **order.IMPLEMENTATIONS,
    **sets.IMPLEMENTATIONS,
}
