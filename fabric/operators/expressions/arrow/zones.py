"""Times of other zones: what clocks show, and when they show it.

One job: `to_wall` and `to_instants`, which casts are made of, and the functions from_utc_timestamp
to_utc_timestamp replace_time_zone. The rules of zones are in `zone_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    all_null,
    from_numpy,
    to_numpy,
)
from fabric.plan.zones import zone_rules

_FAR = 1 << 62
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MICROS = 1_000_000


def to_wall(value: pa.Array, zone: str) -> pa.Array:
    """What clocks in `zone` show at instants, as timestamps without a zone of the same unit.

    >>> at = pa.array([0], pa.timestamp("s", "Asia/Tokyo"))
    >>> to_wall(at, "Asia/Tokyo").to_pylist()
    [datetime.datetime(1970, 1, 1, 9, 0)]
    """
    return _moved(value, zone_rules(zone).from_utc, pa.timestamp(value.type.unit))


def to_instants(value: pa.Array, zone: str) -> pa.Array:
    """When clocks in `zone` show timestamps without a zone.

    Of a time that they show twice it is the first; one that they skip is read as if they had not.
    """
    return _moved(value, zone_rules(zone).to_utc, pa.timestamp(value.type.unit, zone))


def _moved(value: pa.Array, move: Callable[[Values], Values], result: pa.DataType) -> pa.Array:
    per_second = PER_SECOND[value.type.unit]
    numbers = to_numpy(value)
    valid = pc.is_valid(value) if value.null_count else None
    limit = np.iinfo(np.int64).max // _MICROS
    seconds = np.clip(numbers // per_second, -limit + 1, limit - 1)
    micros = seconds * _MICROS if per_second < _MICROS else numbers // (per_second // _MICROS)
    apart = (move(micros) - micros) // _MICROS * per_second
    moved = numbers + apart
    wrapped = (np.abs(numbers) > _FAR) & ((moved < 0) != (numbers < 0))
    if np.any(wrapped if valid is None else wrapped & valid.to_numpy(zero_copy_only=False)):
        raise ExpressionError("overflow: a timestamp at the end of time")
    return from_numpy(moved, result, valid)


def _shown(*, to_utc: bool) -> Implementation:
    def implementation(request: Request) -> Bound:
        zone = request.constant(1)
        if zone is None:
            return all_null(request)
        rules = zone_rules(zone)
        move = rules.to_utc if to_utc else rules.from_utc
        return Bound(lambda value, _: _moved(value, move, request.result), array=0)

    return implementation


def _replaced(request: Request) -> Bound:
    """Options, not rules, decide what becomes of times that are shown twice or never."""
    zone, ambiguous, non_existent = (request.constant(index) for index in (1, 2, 3))
    rules = zone_rules(zone)

    def kernel(value: pa.Array, *_: Datum) -> pa.Array:
        valid = pc.is_valid(value).to_numpy(zero_copy_only=False)
        micros = np.where(valid, to_numpy(value), 0)
        first, last = rules.to_utc(micros), rules.later(micros)
        skipped, twice = valid & (rules.from_utc(first) != micros), valid & (first != last)
        _refuse(value, skipped, non_existent, f"clocks in {zone} skip", 'non_existent="null"')
        _refuse(value, twice, ambiguous, f"clocks in {zone} show twice",
                'ambiguous="earliest", "latest" or "null"')  # fmt: skip
        gone = skipped | (twice if ambiguous == "null" else False)
        instants = last if ambiguous == "latest" else first
        return from_numpy(instants, request.result, pa.array(valid & ~gone))

    return Bound(kernel, array=0)


def _refuse(value: pa.Array, rows: Values, option: str, what: str, instead: str) -> None:
    if option == "raise" and np.any(rows):
        shown = value[int(np.argmax(rows))]
        raise ExpressionError(f"{what} {shown}; write: replace_time_zone(…, {instead})")


IMPLEMENTATIONS: dict[str, Implementation] = {
    "from_utc_timestamp": _shown(to_utc=False),
    "to_utc_timestamp": _shown(to_utc=True),
    "replace_time_zone": _replaced,
}
