"""All scalar functions by the registry's names.

One job: collect the families. `and`, `or` and `coalesce` are not here: they are forms of
`lazy.py`.
"""

from __future__ import annotations

from fabric.operators.expressions.arrow import arithmetic, comparison, dates, rounding, strings
from fabric.operators.expressions.arrow.bound import Implementation

IMPLEMENTATIONS: dict[str, Implementation] = {
    **arithmetic.IMPLEMENTATIONS,
    **rounding.IMPLEMENTATIONS,
    **strings.IMPLEMENTATIONS,
    **dates.IMPLEMENTATIONS,
    **comparison.IMPLEMENTATIONS,
}
