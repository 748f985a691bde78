"""Times of other zones: from_utc_timestamp to_utc_timestamp.

One job: those two; the rules of zones are in `zone_rules.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.buffers import Values
from fabric.operators.expressions.arrow.calendar import numeric_kernel
from fabric.operators.expressions.arrow.zone_rules import zone_rules

_FAR = 1 << 62


def _moved(*, to_utc: bool) -> Implementation:
    def implementation(request: Request) -> Bound:
        zone = request.constant(1)
        if zone is None:
            return Bound(lambda value, _: pa.nulls(len(value), request.result), array=0)

        def compute(micros: Values) -> Values:
            rules = zone_rules(zone)
            moved = rules.to_utc(micros) if to_utc else rules.from_utc(micros)
            if np.any((np.abs(micros) > _FAR) & ((moved < 0) != (micros < 0))):
                raise ExpressionError("overflow: a timestamp at the end of time")
            return moved

        def kernel(value: Datum, _: Datum) -> pa.Array:
            return numeric_kernel(compute, request.result)(value)

        return Bound(kernel, array=0)

    return implementation


IMPLEMENTATIONS: dict[str, Implementation] = {
    "from_utc_timestamp": _moved(to_utc=False),
    "to_utc_timestamp": _moved(to_utc=True),
}
