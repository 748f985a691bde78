"""All scalar functions by the registry's names.

One job: collect the families. `and`, `or` and `coalesce` are not here: they are forms of
`lazy.py`.
"""

from __future__ import annotations

from fabric.operators.expressions.arrow import (
    arithmetic,
    calendar,
    comparison,
    dates,
    durations,
    epochs,
    rounding,
    strings,
    structs,
    zones,
)
from fabric.operators.expressions.arrow.bound import Implementation
from fabric.operators.expressions.arrow.lists import access, build, combine, fold, order, sets

IMPLEMENTATIONS: dict[str, Implementation] = {
    **arithmetic.IMPLEMENTATIONS,
    **rounding.IMPLEMENTATIONS,
    **strings.IMPLEMENTATIONS,
    **dates.IMPLEMENTATIONS,
    **comparison.IMPLEMENTATIONS,
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
