"""The functions of days, months and numbers since 1970 in DuckDB SQL with Spark's meaning.

One job: their templates. Patterns, zones and durations have no translation: DuckDB writes and
counts them in other ways, zones in an extension.
"""

from __future__ import annotations

from fabric.plan.functions.calendar import DAY_NAMES
from tests.support.duckdb.call import Args, Builders, Literals, Signature, constant

TEMPLATES: dict[str, str] = {
    "quarter": "quarter({0})", "week": "weekofyear({0})", "weekday": "isodow({0})",
    "day_of_year": "dayofyear({0})",
    "last_day": "last_day({0})", "trunc": "CAST(date_trunc({1}, {0}) AS DATE)",
    "date_add": "({0} + CAST({1} AS INTEGER))", "add_months": "CAST({0} + to_months({1}) AS DATE)",
    "date_diff": "CAST(date_diff('day', {1}, {0}) AS INTEGER)",
    "make_date": "make_date({0}, {1}, {2})",
    "make_timestamp": "(make_timestamp({0}, {1}, {2}, {3}, {4}, 0) "
                      "+ to_microseconds(CAST({5} * 1000000 AS BIGINT)))",
    "millisecond": "(microsecond({0}) % 1000000 // 1000)",
    "microsecond": "(microsecond({0}) % 1000000)",
    "nanosecond": "(microsecond({0}) % 1000000 * 1000)",
    "unix_micros": "epoch_us({0})",
    "unix_date": "({0} - DATE '1970-01-01')",
    "date_from_unix_date": "(DATE '1970-01-01' + CAST({0} AS INTEGER))",
    "timestamp_seconds": "make_timestamp({0} * 1000000)",
    "timestamp_millis": "make_timestamp({0} * 1000)", "timestamp_micros": "make_timestamp({0})",
}  # fmt: skip


def _floored(micros: int) -> str:
    rest = f"((epoch_us({{0}}) % {micros} + {micros}) % {micros})"
    return f"((epoch_us({{0}}) - {rest}) // {micros})"


TEMPLATES["unix_seconds"] = _floored(1_000_000)
TEMPLATES["unix_millis"] = _floored(1_000)


def _next_day(args: Args, _: Signature, literals: Literals) -> str:
    wanted = DAY_NAMES.index(constant("next_day", literals, 1)) + 1
    return f"({args[0]} + CAST(({wanted} - isodow({args[0]}) + 6) % 7 + 1 AS INTEGER))"


def _timestamp_diff(args: Args, _: Signature, literals: Literals) -> str:
    """Months by hand: DuckDB has its own idea of when one is over."""
    unit = constant("timestamp_diff", literals, 0)
    if unit not in _MICROS:
        raise ValueError(f"no SQL for {unit}s between timestamps")
    return f"((epoch_us({args[2]}) - epoch_us({args[1]})) // {_MICROS[unit]})"


_MICROS = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000,
}  # fmt: skip

BUILDERS: Builders = {"next_day": _next_day, "timestamp_diff": _timestamp_diff}
