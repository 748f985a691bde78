"""Times of other zones on Spark, whose timestamps have none but the session's, which is UTC.

One job: casts between timestamps of a zone and what has none (`cast`), the functions that clocks of
a zone count for (`ZONED`), and from_utc_timestamp to_utc_timestamp replace_time_zone. What clocks
show is a timestamp in UTC that reads like it; results get the zone of the plan's type back where
they leave Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as t
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions.build import Build, spark_type
from fabric.errors import PlanError
from fabric.plan.functions.dates import CLOCK_UNITS
from fabric.plan.functions.datetime_patterns import tokens
from fabric.plan.types import is_nested, is_string, plain
from fabric.plan.zones import local_zone

_DAY_US = 86_400_000_000
_UNIT_US = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000,
}  # fmt: skip
_HAS_ZONE = r"^\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}[ T]\d{1,2}:\d{1,2}:\d{1,2}(\.\d*)?[^0-9.:\s]"
"""A text that says its own zone."""


def cast(
    column: SparkColumn, source: pa.DataType, target: pa.DataType, *, try_: bool = False
) -> SparkColumn:
    """`column` of type `source` as `target`, by what clocks of a zone show where one is taken off
    or set."""
    source, target = plain(source), plain(target)
    wanted = spark_type(target)

    def as_type(value: SparkColumn, dtype: Any = wanted) -> SparkColumn:
        return value.try_cast(dtype) if try_ else value.cast(dtype)

    from_zone, to_zone = local_zone(source), local_zone(target)
    if from_zone is not None and (_has_no_zone(target) or is_string(target)):
        return as_type(shown(column, from_zone))
    if to_zone is not None and _has_no_zone(source):
        return instant(as_type(column), to_zone)
    if to_zone is not None and is_string(source):
        read = as_type(column)
        return sf.when(sf.rlike(column, sf.lit(_HAS_ZONE)), read).otherwise(instant(read, to_zone))
    if is_nested(source) and (_zoned_inside(source) or _zoned_inside(target)):
        raise PlanError(
            f"Spark can't cast {source} to {target}, which have zones inside; take the values out "
            "and cast them, or run the plan embedded or on agents"
        )
    return as_type(column)


def _has_no_zone(dtype: pa.DataType) -> bool:
    return bool(t.is_date(dtype) or (t.is_timestamp(dtype) and dtype.tz is None))


def _zoned_inside(dtype: pa.DataType) -> bool:
    if is_nested(dtype):
        return any(_zoned_inside(dtype.field(i).type) for i in range(dtype.num_fields))
    return local_zone(dtype) is not None


def shown(column: SparkColumn, zone: str) -> SparkColumn:
    """What clocks in `zone` show."""
    return sf.from_utc_timestamp(column, sf.lit(zone))


def instant(column: SparkColumn, zone: str) -> SparkColumn:
    """When clocks in `zone` show it: of two times the first."""
    return sf.to_utc_timestamp(column, sf.lit(zone))


def _later(micros: SparkColumn, to: SparkColumn) -> SparkColumn:
    return sf.timestamp_micros(sf.unix_micros(to) + micros)


def _ahead(column: SparkColumn, zone: str) -> SparkColumn:
    """Microseconds that clocks in `zone` are ahead of UTC at an instant."""
    return sf.unix_micros(shown(column, zone)) - sf.unix_micros(column)


def _beside(local: SparkColumn, before: SparkColumn, zone: str) -> SparkColumn:
    """When clocks show `local`, with the offset they had at `before` where they do."""
    kept = _later(-_ahead(before, zone), local)
    return sf.when(shown(kept, zone) == local, kept).otherwise(instant(local, zone))


def _date_trunc(args: Sequence[SparkColumn], values: Sequence[Any], zone: str) -> SparkColumn:
    unit, at = values[0], args[1]
    local = shown(at, zone)
    if unit in CLOCK_UNITS:
        return instant(sf.date_trunc(unit, local), zone)
    return _later(-sf.pmod(sf.unix_micros(local), sf.lit(_UNIT_US[unit])), at)


def _add_interval(args: Sequence[SparkColumn], values: Sequence[Any], zone: str) -> SparkColumn:
    at, number, unit = args[0], args[1], values[2]
    if unit not in CLOCK_UNITS:
        return sf.timestamp_add(unit.upper(), number, at)
    return _beside(sf.timestamp_add(unit.upper(), number, shown(at, zone)), at, zone)


def _date_format(args: Sequence[SparkColumn], values: Sequence[Any], zone: str) -> SparkColumn:
    """Offsets are written apart: Spark would write those of its session."""
    local, parts, pattern = shown(args[0], zone), [], ""
    for kind, text in tokens(values[1]):
        if kind == "letters" and text[0] in "Xx":
            if pattern:
                parts.append(sf.date_format(local, pattern))
            parts.append(_offset(args[0], zone, text))
            pattern = ""
        else:
            pattern += text if kind != "text" else "'" + text.replace("'", "''") + "'"
    return sf.concat(*parts, *([sf.date_format(local, pattern)] if pattern else []))


def _offset(at: SparkColumn, zone: str, letters: str) -> SparkColumn:
    """``+05``, or ``+0530`` where there are minutes; ``+0530``; ``+05:30``. X is Z for UTC."""
    minutes = sf.call_function("div", _ahead(at, zone), sf.lit(60_000_000))
    sign = sf.when(minutes < 0, "-").otherwise("+")
    hours, rest = (
        sf.lpad(part.cast("string"), 2, "0")
        for part in (sf.call_function("div", sf.abs(minutes), sf.lit(60)), sf.abs(minutes) % 60)
    )
    if len(letters) == 1:
        rest = sf.when(minutes % 60 == 0, "").otherwise(rest)
    text = sf.concat(sign, hours, *([sf.lit(":")] if len(letters) == 3 else []), rest)
    return sf.when(minutes == 0, "Z").otherwise(text) if letters[0] == "X" else text


def _replaced(args: Sequence[SparkColumn], values: Sequence[Any]) -> SparkColumn:
    """Clocks show a time twice when they do after the next change as well, within a day."""
    zone, ambiguous, non_existent = values[1:]
    local = args[0].cast("timestamp")
    first = instant(local, zone)
    second = _later(-_ahead(_later(sf.lit(_DAY_US), first), zone), local)
    twice = (shown(second, zone) == local) & (second > first)
    skipped = shown(first, zone) != local
    found = sf.when(twice, second).otherwise(first) if ambiguous == "latest" else first
    what = {"raise": _raised, "null": lambda *_: sf.lit(None).cast("timestamp")}
    result = sf.when(skipped, what[non_existent](zone, "skip", local))
    if ambiguous in what:
        result = result.when(twice, what[ambiguous](zone, "show twice", local))
    return result.otherwise(found)


def _raised(zone: str, what: str, local: SparkColumn) -> SparkColumn:
    message = sf.concat(sf.lit(f"clocks in {zone} {what} "), local.cast("string"))
    return sf.raise_error(message).cast("timestamp")


FUNCTIONS: dict[str, Build] = {
    "replace_time_zone": _replaced,
}
ZONED: dict[str, tuple[int, Callable[[Sequence[SparkColumn], Sequence[Any], str], SparkColumn]]] = {
    "date_trunc": (1, _date_trunc),
    "add_interval": (0, _add_interval),
    "date_format": (0, _date_format),
}
"""Functions of a timestamp whose zone counts: which argument it is, and how they are spelt."""
