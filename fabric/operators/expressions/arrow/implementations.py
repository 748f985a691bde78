"""All scalar functions by the registry's names.

One job: collect what Arrow has by name and the families. `and`, `or` and `coalesce` are not here:
they are forms of `lazy.py`.
"""

from __future__ import annotations

import pyarrow.compute as pc

from fabric.operators.expressions.arrow import (
    arithmetic,
    bitwise,
    calendar,
    chance,
    comparison,
    dates,
    digits,
    durations,
    encoding,
    epochs,
    math,
    regex,
    rust_patterns,
    strings,
    texts,
    zones,
)
from fabric.operators.expressions.arrow.bound import Bound, Implementation
from fabric.operators.expressions.arrow.lists import access, build, combine, fold, order, sets
from fabric.plan.functions import FUNCTIONS


def _named(kernel: str) -> Implementation:
    """A function of Arrow's by its name, applied to all arguments."""
    compute = getattr(pc, kernel)
    return lambda _: Bound(compute)


IMPLEMENTATIONS: dict[str, Implementation] = {
    **{name: _named(known.arrow) for name, known in FUNCTIONS.items() if known.arrow},
    **arithmetic.IMPLEMENTATIONS,
    **digits.IMPLEMENTATIONS,
    **math.IMPLEMENTATIONS,
    **bitwise.IMPLEMENTATIONS,
    **strings.IMPLEMENTATIONS,
    **texts.IMPLEMENTATIONS,
    **regex.IMPLEMENTATIONS,
    **rust_patterns.IMPLEMENTATIONS,
    **encoding.IMPLEMENTATIONS,
    **chance.IMPLEMENTATIONS,
    **dates.IMPLEMENTATIONS,
    **comparison.IMPLEMENTATIONS,
    **calendar.IMPLEMENTATIONS,
    **durations.IMPLEMENTATIONS,
    **epochs.IMPLEMENTATIONS,
    **zones.IMPLEMENTATIONS,
    **access.IMPLEMENTATIONS,
    **build.IMPLEMENTATIONS,
    **combine.IMPLEMENTATIONS,
    **fold.IMPLEMENTATIONS,
    **order.IMPLEMENTATIONS,
    **sets.IMPLEMENTATIONS,
}
