"""Event time in DuckDB SQL: each row's watermark, its windows, and which rows are late for them.

One job: watermarks and windows as queries over all rows at once, so that a stream's windows can be
compared with a table's. Times are BIGINT microseconds; of a timestamp column that is
``epoch_us(column)``. Each function takes a query and gives a query.
"""

from __future__ import annotations

from fabric.event_time.windows import Framed
from fabric.plan.event_windows import Cumulative, Sliding, Tumbling

TIME, WATERMARK, LATE = "__time", "__watermark", "late"


def watermarks_sql(
    rows: str,
    *,
    split: str,
    order: str,
    time_us: str,
    bound_us: int,
    future_us: int | None = None,
) -> str:
    """`rows` with two more columns: `TIME`, and `WATERMARK`, what each row carries.

    The watermark is null before the first time of a split; `order` numbers the rows of one. With
    `future_us` no row pushes the greatest time by more than that.

    Examples
    --------
    >>> import duckdb
    >>> rows = "SELECT * FROM (VALUES ('a', 1, 100), ('a', 2, 90), ('a', 3, 1)) AS _(s, n, t)"
    >>> sql = watermarks_sql(rows, split="s", order="n", time_us="t", bound_us=5)
    >>> duckdb.sql(f"SELECT t, __watermark FROM ({sql}) ORDER BY n").fetchall()
    [(100, None), (90, 95), (1, 95)]
    """
    timed = f"SELECT *, CAST({time_us} AS BIGINT) AS {TIME} FROM ({rows})"
    if future_us is None:
        before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        earlier = f"PARTITION BY {split} ORDER BY {order} {before}"
        return f"SELECT *, max({TIME}) OVER ({earlier}) - {bound_us} AS {WATERMARK} FROM ({timed})"
    return f"""
        WITH RECURSIVE __rows AS (
            SELECT *, row_number() OVER (PARTITION BY {split} ORDER BY {order}) AS __n
            FROM ({timed})
        ), __fold AS (
            SELECT {split} AS __split, __n, CAST(NULL AS BIGINT) AS __before, {TIME} AS __greatest
            FROM __rows WHERE __n = 1
            UNION ALL
            SELECT __split, __rows.__n, __greatest, CASE
                WHEN {TIME} IS NULL OR {TIME} < __greatest THEN __greatest
                WHEN __greatest IS NULL THEN {TIME}
                ELSE least({TIME}, __greatest + {future_us}) END
            FROM __fold JOIN __rows ON __split = {split} AND __rows.__n = __fold.__n + 1
        )
        SELECT __rows.* EXCLUDE __n, __before - {bound_us} AS {WATERMARK}
        FROM __rows JOIN __fold ON __split = {split} AND __rows.__n = __fold.__n
    """


def windows_sql(rows: str, window: Framed, lateness_us: int = 0) -> str:
    """Each row once for each of its windows: `window_start`, `window_end`, whether it is `LATE`.

    `rows` is what `watermarks_sql` gives.

    Examples
    --------
    >>> import duckdb
    >>> rows = "SELECT 12 AS __time, 15 AS __watermark"
    >>> duckdb.sql(windows_sql(rows, Sliding(10, 5))).fetchall()
    [(12, 15, 10, 20, False), (12, 15, 5, 15, True)]
    """
    offset = window.offset_us
    match window:
        case Tumbling(size_us=size):
            starts, ends = f"[{_floor(TIME, size, offset)}]", f"window_start + {size}"
        case Sliding(size_us=size, slide_us=slide):
            last = _floor(TIME, slide, offset)
            starts, ends = f"range({last}, {TIME} - {size}, -{slide})", f"window_start + {size}"
        case Cumulative(size_us=size, step_us=step):
            start, first = _floor(TIME, size, offset), _floor(TIME, step, offset)
            starts = f"range({first} + {step}, {start} + {size} + 1, {step})"
            unnested = f"SELECT *, unnest({starts}) AS window_end FROM ({rows})"
            moved = f"SELECT * EXCLUDE window_end, {start} AS window_start, window_end"
            return _lateness(f"{moved} FROM ({unnested})", lateness_us)
    unnested = f"SELECT *, unnest({starts}) AS window_start FROM ({rows})"
    return _lateness(f"SELECT *, {ends} AS window_end FROM ({unnested})", lateness_us)


def sessions_sql(rows: str, gap_us: int, keys: str = "1", lateness_us: int = 0) -> str:
    """Each row with its session, or, where it is `LATE`, with the window that it is alone.

    `keys` are expressions, by comma. Sessions are made of the rows that are not late; one at most
    `gap_us` behind another is in its session.

    Examples
    --------
    >>> import duckdb
    >>> rows = "SELECT unnest([10, 15, 40]) AS __time, NULL AS __watermark"
    >>> sql = sessions_sql(rows, 5)
    >>> sorted(duckdb.sql(f"SELECT __time, window_start, window_end FROM ({sql})").fetchall())
    [(10, 10, 20), (15, 10, 20), (40, 40, 45)]
    """
    alone = f"SELECT *, {TIME} AS window_start, {TIME} + {gap_us} AS window_end FROM ({rows})"
    return f"""
        WITH __alone AS ({_lateness(alone, lateness_us)}), __begun AS (
            SELECT *, {TIME} - lag({TIME}) OVER (PARTITION BY {keys} ORDER BY {TIME}) <= {gap_us}
                AS __goes_on
            FROM __alone WHERE NOT {LATE}
        ), __numbered AS (
            SELECT *, count(*) FILTER (WHERE __goes_on IS NOT TRUE) OVER (
                PARTITION BY {keys} ORDER BY {TIME} ROWS UNBOUNDED PRECEDING) AS __session
            FROM __begun
        )
        SELECT * EXCLUDE (__goes_on, __session, window_start, window_end, {LATE}),
            min(window_start) OVER (PARTITION BY {keys}, __session) AS window_start,
            max(window_end) OVER (PARTITION BY {keys}, __session) AS window_end, {LATE}
        FROM __numbered
        UNION ALL BY NAME SELECT * FROM __alone WHERE {LATE}
    """


def _floor(time: str, size: int, offset: int) -> str:
    """The last multiple of `size` from `offset` that is not after `time`, also before 1970."""
    return f"({time} - (({time} - ({offset})) % {size} + {size}) % {size})"


def _lateness(rows: str, lateness_us: int) -> str:
    late = f"coalesce(window_end + {lateness_us} <= {WATERMARK}, false)"
    return f"SELECT *, {late} AS {LATE} FROM ({rows})"
