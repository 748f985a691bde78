"""All scalar functions by the registry's names.

One job: collect what Arrow has by name and the families. `and`, `or` and `coalesce` are not here:
they are forms of `lazy.py`.
"""

from __future__ import annotations

import pyarrow.compute as pc

from fabric.operators.expressions.arrow import (
    arithmetic,
    calendar,
    comparison,
    dates,
    digits,
    encoding,
    epochs,
    math,
    regex,
    strings,
    texts,
    zones,
)
from fabric.operators.expressions.arrow.bound import Implementation, simple
from fabric.operators.expressions.arrow.lists import access, build, combine, fold
from fabric.plan.functions import FUNCTIONS

_FAMILIES = (arithmetic, digits, math, strings, texts, regex, encoding, dates, comparison, calendar,
             epochs, zones, access, build, combine, fold)  # fmt: skip


IMPLEMENTATIONS: dict[str, Implementation] = {
    **{name: simple(getattr(pc, known.arrow)) for name, known in FUNCTIONS.items() if known.arrow},
    **{name: made for family in _FAMILIES for name, made in family.IMPLEMENTATIONS.items()},
}
