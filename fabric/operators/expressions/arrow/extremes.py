"""The largest and the smallest of several arguments; nulls are left out, NaN is the largest.

One job: greatest least. Of equal values (0.0 and -0.0) the first one is taken.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.comparison import compare


def _extreme(request: Request) -> Bound:
    dtype = request.result
    better = compare("gt" if request.name == "greatest" else "lt", dtype)

    def kernel(*values: Datum) -> Datum:
        n_rows = next(len(value) for value in values if isinstance(value, pa.Array))
        if t.is_null(dtype):
            return pa.nulls(n_rows)
        best = values[0] if isinstance(values[0], pa.Array) else pa.repeat(values[0], n_rows)
        for value in values[1:]:
            wins = pc.if_else(pc.is_null(best), True, pc.fill_null(better(value, best), False))
            best = pc.if_else(wins, value, best)
        return best

    return Bound(kernel, order="all")


IMPLEMENTATIONS: dict[str, Implementation] = {"greatest": _extreme, "least": _extreme}
