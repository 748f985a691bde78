"""Window functions: against a definition in Python for every function and frame, DuckDB for sums.

The definition sorts each partition, takes the rows of each row's frame and computes from those.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Frame, Literal, Over, SortKey
from fabric.plan.nodes import Aggregate, Filter, StageInput, Window
from fabric.plan.schema import schema_of

I32, F64 = pa.int32(), pa.float64()
P, T, X, ID = (Column(name) for name in "poxi")
Row = dict[str, Any]


def whole(value: int) -> Literal:
    return Literal(value, I32)


def windowed(table: pa.Table, *overs: Over, threads: int = 2, crumb: int = 3) -> pa.Table:
    """The rows with "r0", "r1", ... beside, in the order of column "i"."""
    exprs = tuple(Alias(over, f"r{i}") for i, over in enumerate(overs))
    node = Window(StageInput(0, table.schema), exprs)
    inputs = {0: table.to_batches(max_chunksize=crumb)}
    stream = execute_fragment(node, inputs, {}, target_partitions=threads, batch_rows=2 * crumb)
    found = pa.Table.from_batches(list(stream), schema_of(node))
    assert found.column_names == [*table.column_names, *(f"r{i}" for i in range(len(overs)))]
    return found.sort_by("i")


def place(value: Any) -> tuple[int, Any]:
    """Spark's order: nulls first, NaN last, zeros equal."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value)


def is_number(value: Any) -> bool:
    return place(value)[0] == 1


def frame_rows(rows: Sequence[Row], at: int, over: Over) -> list[Row]:
    """The frame of ``rows[at]`` by the book; `rows` are its partition, sorted by `o` (and `i`)."""
    frame = over.frame
    if frame is None:
        frame = Frame("range", None, 0 if over.order_by else None)
    if frame.unit == "rows":
        start = 0 if frame.start is None else max(0, at + frame.start)
        end = len(rows) if frame.end is None else max(0, at + frame.end + 1)
        return list(rows[start:end])
    own = rows[at]["o"]
    chosen = []
    for index, row in enumerate(rows):
        same = place(row["o"]) == place(own) if over.order_by else True
        before = frame.start is None and (index <= at or same)
        after = frame.end is None and (index >= at or same)
        inside = same
        if is_number(own) and is_number(row["o"]):
            sign = -1 if over.order_by and over.order_by[0].descending else 1
            apart = sign * (row["o"] - own)
            low = True if frame.start is None else apart >= frame.start
            high = True if frame.end is None else apart <= frame.end
            inside = low and high
        elif not same:
            inside = (before and frame.end is None) or (after and frame.start is None)
            inside = inside or (index < at and before) or (index > at and after)
        if inside:
            chosen.append(row)
    return chosen


def values_of(rows: Sequence[Row]) -> list[Any]:
    return [row["x"] for row in rows if row["x"] is not None]


def mean_of(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def variance(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    return statistics.variance(values) if all(map(math.isfinite, values)) else math.nan


def extreme(values: list[float], pick: Callable[..., Any]) -> Any:
    return pick(values, key=place) if values else None


def summed(values: list[float]) -> float | None:
    if not values:
        return None
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": summed,
    "mean": lambda v: None if not v else summed(v) / len(v),
    "min": lambda v: extreme(v, min),
    "max": lambda v: extreme(v, max),
    "var": variance,
    "median": lambda v: None if not v else statistics.median(sorted(v, key=place)),
    "count_distinct": lambda v: len({place(x) for x in v}),
    "collect": lambda v: sorted(map(place, v)),
}


def partitions(table: pa.Table, *, descending: bool = False) -> list[list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in table.to_pylist():
        found.setdefault(place(row["p"]), []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row["i"])
        rows.sort(key=lambda row: place(row["o"]), reverse=descending)
    return list(found.values())


def close(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return bool(expected == sorted(map(place, found)))
    if found is None or expected is None:
        return found is expected
    if isinstance(expected, float):
        same = math.isnan(expected) and math.isnan(found)
        return same or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


NUMBERS = st.sampled_from([None, 0.0, -0.0, 1.5, -2.0, 7.0, math.nan, math.inf])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, 1.0, 2.0, 2.5, 5.0, math.nan, -0.0, 0.0]),
        NUMBERS,
    ),
    max_size=14,
)
FRAMES = st.none() | st.builds(
    lambda unit, a, b: (
        Frame(unit, *sorted((a, b), key=lambda v: -99 if v is None else v))
        if a is not None and b is not None
        else Frame(unit, a, b)
    ),
    st.sampled_from(["rows", "range"]),
    st.none() | st.integers(-3, 3),
    st.none() | st.integers(-3, 3),
)


def table_of(rows: Sequence[tuple[Any, Any, Any]]) -> pa.Table:
    p, o, x = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({
        "p": pa.array(p, I32), "o": pa.array(o, F64), "x": pa.array(x, F64),
        "i": pa.array(range(len(rows)), pa.int64()),
    })  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    rows=ROWS,
    frame=FRAMES,
    functions=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=3),
    descending=st.booleans(),
    threads=st.integers(1, 2),
)
def test_aggregates_over_any_frame(
    rows: Any, frame: Any, functions: list[str], descending: bool, threads: int
) -> None:
    table = table_of(rows)
    order = [SortKey(T, descending, nulls_last=descending)]
    if frame is not None and frame.unit == "rows":
        order.append(SortKey(ID))  # so that ties are no matter
    overs = [Over(Agg(name, X), (P,), tuple(order), frame) for name in functions]
    found = windowed(table, *overs, threads=threads)
    for partition in partitions(table, descending=descending):
        for at, row in enumerate(partition):
            seen = values_of(frame_rows(partition, at, overs[0]))
            for index, name in enumerate(functions):
                answer = found[f"r{index}"][row["i"]].as_py()
                assert close(answer, AGGREGATES[name](seen)), (name, row, seen)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, frame=FRAMES, ignore=st.booleans(), n=st.integers(1, 3))
def test_values_by_their_place_in_the_frame(rows: Any, frame: Any, ignore: bool, n: int) -> None:
    table = table_of(rows)
    if frame is not None:
        frame = Frame("rows", frame.start, frame.end)
    order = (SortKey(T), SortKey(ID))
    skip = Literal(ignore, pa.bool_())
    calls = [
        Agg("first_value", X, (skip,)),
        Agg("last_value", X, (skip,)),
        Agg("nth_value", X, (whole(n), skip)),
        Agg("any_value", X),
    ]
    found = windowed(table, *(Over(call, (P,), order, frame) for call in calls))
    over = Over(calls[0], (P,), order, frame or Frame("rows", None, 0))
    for partition in partitions(table):
        for at, row in enumerate(partition):
            seen = frame_rows(partition, at, over)
            values = [r["x"] for r in seen if not (ignore and r["x"] is None)]
            some = [r["x"] for r in seen if r["x"] is not None]
            nth = values[n - 1] if len(values) >= n else None
            expected = [
                *(values[:1] or [None]),
                *(values[-1:] or [None]),
                nth,
                *(some[:1] or [None]),
            ]
            got = [found[f"r{i}"][row["i"]].as_py() for i in range(4)]
            assert list(map(place, got)) == list(map(place, expected))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, n=st.integers(1, 5), offset=st.integers(-2, 3), default=st.none() | st.just(9.5))
def test_ranks_and_shifts(rows: Any, n: int, offset: int, default: float | None) -> None:
    table = table_of(rows)
    by_o, unique = (SortKey(T),), (SortKey(T), SortKey(ID))
    shift = (whole(offset), Literal(default, F64))
    overs = [
        *(
            Over(Agg(name, None), (P,), by_o)
            for name in ("rank", "dense_rank", "percent_rank", "cume_dist")
        ),
        Over(Agg("row_number", None), (P,), unique),
        Over(Agg("ntile", None, (whole(n),)), (P,), unique),
        Over(Agg("lag", X, shift), (P,), unique),
        Over(Agg("lead", X, shift), (P,), unique),
    ]
    found = windowed(table, *overs)
    assert found.schema.field("r0").type == I32
    for partition in partitions(table):
        n_rows = len(partition)
        places = [place(row["o"]) for row in partition]
        for at, row in enumerate(partition):
            rank = 1 + sum(other < places[at] for other in places)
            upto = sum(other <= places[at] for other in places)
            size, longer = divmod(n_rows, n)
            edge = longer * (size + 1)
            tile = at // (size + 1) if at < edge else longer + (at - edge) // max(size, 1)

            def shifted(to: int, rows: list[Row] = partition) -> Any:
                return rows[to]["x"] if 0 <= to < len(rows) else default

            expected = [
                rank, 1 + len({p for p in places if p < places[at]}),
                (rank - 1) / (n_rows - 1) if n_rows > 1 else 0.0, upto / n_rows, at + 1, tile + 1,
                shifted(at - offset), shifted(at + offset),
            ]  # fmt: skip
            got = [found[f"r{i}"][row["i"]].as_py() for i in range(8)]
            assert list(map(place, got)) == list(map(place, expected))


TABLE = pa.table({
    "p": [1, 1, 1, 2, 2, None], "o": [1, 2, 3, 1, 2, 1], "i": [0, 1, 2, 3, 4, 5],
    "x": [1.0, 2.0, 4.0, None, 3.0, 5.0], "s": ["a", None, "c", "d", "e", "f"],
})  # fmt: skip
BY_O = (SortKey(T),)


def column(table: pa.Table, name: str = "r0") -> list[Any]:
    return table[name].to_pylist()


def test_nothing_in_nothing_out() -> None:
    overs = [Over(Agg(name, X), (P,), BY_O) for name in ("sum", "median")]
    found = windowed(TABLE.slice(0, 0), *overs, Over(Agg("rank", None), (P,), BY_O))
    assert found.num_rows == 0


@pytest.mark.parametrize("name", ["sum", "median", "count", "max", "collect"])
def test_without_partitions_and_order(name: str) -> None:
    found = column(windowed(TABLE, Over(Agg(name, X))))
    if name == "collect":
        assert [sorted(each) for each in found] == [[1.0, 2.0, 3.0, 4.0, 5.0]] * 6
    else:
        assert found == [{"sum": 15.0, "median": 3.0, "count": 5, "max": 5.0}[name]] * 6


def test_rows_are_counted_without_a_column() -> None:
    found = windowed(TABLE, Over(Agg("count", None), (P,)), Over(Agg("count", None), (P,), BY_O))
    assert column(found) == [3, 3, 3, 2, 2, 1]
    assert column(found, "r1") == [1, 2, 3, 1, 2, 1]


def test_several_orders_in_one_node() -> None:
    down = (SortKey(T, descending=True),)
    overs = [
        Over(Agg(name, X), (P,), order)
        for name in ("sum", "median", "first_value")
        for order in (BY_O, down)
    ]
    found = windowed(TABLE, *overs)
    assert column(found, "r0") == [1.0, 3.0, 7.0, None, 3.0, 5.0]
    assert column(found, "r1") == [7.0, 6.0, 4.0, 3.0, 3.0, 5.0]
    assert column(found, "r2") == [1.0, 1.5, 2.0, None, 3.0, 5.0]
    assert column(found, "r3") == [2.0, 3.0, 4.0, 3.0, 3.0, 5.0]
    assert column(found, "r5") == [4.0, 4.0, 4.0, 3.0, 3.0, 5.0]


def test_keys_and_arguments_are_expressions() -> None:
    odd = Call("modulo", (ID, whole(2)))
    twice = Call("multiply", (T, whole(2)))
    overs = [
        Over(Agg(name, twice), (odd,), (SortKey(Call("negate", (ID,))),))
        for name in ("sum", "median")
    ]
    found = windowed(TABLE, *overs)
    assert column(found) == [12, 8, 10, 4, 4, 2]
    assert column(found, "r1") == [4.0, 2.0, 5.0, 2.0, 4.0, 2.0]


def test_nan_and_zeros_of_either_sign_are_one_partition_and_peers() -> None:
    nan = -math.nan
    table = pa.table(
        {"p": [0.0, -0.0, math.nan, nan], "o": [-0.0, 0.0, nan, math.nan], "i": range(4)}
    )
    assert column(windowed(table, Over(Agg("count", None), (P,)))) == [2, 2, 2, 2]
    assert column(windowed(table, Over(Agg("rank", None), (), BY_O))) == [1, 1, 3, 3]


@pytest.mark.parametrize("frame", [None, Frame("rows", -1, 0), Frame("rows", None, None)])
def test_a_sum_that_wraps_is_an_error(frame: Frame | None) -> None:
    big = pa.table({"o": [1, 2], "x": [2**62, 2**62], "i": [0, 1]})
    with pytest.raises(ExpressionError, match="'r0' does not fit in int64"):
        windowed(big, Over(Agg("sum", X), (), BY_O, frame))
    small = windowed(big, Over(Agg("sum", X), (), BY_O, Frame("rows", 0, 0)))
    assert column(small) == [2**62, 2**62]


def test_decimals_have_the_types_of_groups() -> None:
    table = pa.table({
        "o": [1, 2, 3], "i": [0, 1, 2], "x": pa.array([1, 2, 4]).cast(pa.decimal128(21, 2)),
    })  # fmt: skip
    for frame in (None, Frame("rows", -1, 0), Frame("range", -1, 0)):
        overs = [Over(Agg(name, X), (), BY_O, frame) for name in ("sum", "mean", "max")]
        found = windowed(table, *overs)
        assert [str(t) for t in found.schema.types[-3:]] == [
            "decimal128(31, 2)", "decimal128(25, 6)", "decimal128(21, 2)",
        ]  # fmt: skip
        last = [float(column(found, f"r{i}")[-1]) for i in range(3)]
        assert last == ([7.0, 2.333333, 4.0] if frame is None else [6.0, 3.0, 4.0])


def test_sums_of_leaving_rows_lose_nothing() -> None:
    table = pa.table({"o": [1, 2, 3, 4], "i": range(4), "x": [1e300, 1.0, math.inf, 2.0]})
    overs = [Over(Agg(name, X), (), BY_O, Frame("rows", 0, 0)) for name in ("sum", "mean")]
    found = windowed(table, *overs)
    assert column(found) == [1e300, 1.0, math.inf, 2.0]
    assert column(found, "r1") == [1e300, 1.0, math.inf, 2.0]


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int64(), pa.uint32(), pa.float32()])
def test_distances_past_the_limits_of_the_key(dtype: pa.DataType) -> None:
    top = {pa.int8(): 127, pa.int64(): 2**63 - 1, pa.uint32(): 2**32 - 1, pa.float32(): 1e38}[dtype]
    table = pa.table(
        {"o": pa.array([None, 0, 100, top], dtype), "x": [1.0, 2.0, 4.0, 8.0], "i": range(4)}
    )
    frames = [Frame("range", -(2**40), 2**40), Frame("range", 2**62, None), Frame("range", -1, 1)]
    far = top > 2**40
    for name in ("count", "sum", "median"):
        found = windowed(table, *(Over(Agg(name, X), (), BY_O, frame) for frame in frames))
        if name == "count":
            assert column(found) == ([1, 2, 2, 1] if far else [1, 3, 3, 3])
            last = pa.types.is_floating(dtype)  # 1e38 + 2^62 is 1e38
            assert column(found, "r1") == ([4, 1, 1, int(last)] if far else [4, 0, 0, 0])
        if name == "sum":
            assert column(found) == ([1.0, 6.0, 6.0, 8.0] if far else [1.0, 14.0, 14.0, 14.0])
            assert column(found, "r2") == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("name", ["bool_and", "bool_or", "count_if"])
@pytest.mark.parametrize("frame", [None, Frame("rows", -1, 0), Frame("rows", 1, None)])
def test_conditions(name: str, frame: Frame | None) -> None:
    flags = [True, None, False, None, True]
    table = pa.table({"o": range(5), "i": range(5), "x": pa.array(flags, pa.bool_())})
    found = column(windowed(table, Over(Agg(name, X), (), BY_O, frame)))
    for at in range(5):
        start, end = {None: (0, at + 1)}.get(
            frame, (max(0, at - 1), at + 1) if frame and frame.end == 0 else (at + 1, 5)
        )
        seen = [flag for flag in flags[start:end] if flag is not None]
        expected = {"count_if": sum(seen), "bool_and": all(seen), "bool_or": any(seen)}[name]
        assert found[at] == (None if not seen and name != "count_if" else expected)


@pytest.mark.parametrize("name", ["corr", "covar_samp", "covar_pop"])
@pytest.mark.parametrize(
    "text",
    [
        "rows between 2 preceding and current row",
        "rows between unbounded preceding and current row",
    ],
)
def test_co_moments_agree_with_duckdb(ask: Any, name: str, text: str) -> None:
    table = pa.table({
        "i": range(7), "o": [1.0, 2.0, 3.5, 3.0, 8.0, 6.0, 7.0],
        "x": [2.0, 1.0, None, 4.0, 7.0, 7.5, 1.0],
    })  # fmt: skip
    frame = Frame("rows", -2 if "2" in text else None, 0)
    found = column(windowed(table, Over(Agg(name, X, (T,)), (), (SortKey(ID),), frame)))
    expected = ask(f"select i, {name}(x, o) over (order by i {text}) from t", t=table)
    for answer, (_, wanted) in zip(found, sorted(expected), strict=True):
        undefined = wanted is None or math.isnan(wanted)
        assert (answer is None) if undefined else math.isclose(answer, wanted, abs_tol=1e-9)


@pytest.mark.parametrize("name", ["skewness", "kurtosis", "std_pop"])
def test_moments_of_frames_are_those_of_groups(name: str) -> None:
    values = [3.0, 1.0, None, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    table = pa.table({"i": range(9), "x": values})
    found = column(windowed(table, Over(Agg(name, X), (), (SortKey(ID),), Frame("rows", -4, 2))))
    for at in range(9):
        part = pa.table({"x": pa.array(values[max(0, at - 4) : at + 3], F64)})
        node = Aggregate(StageInput(0, part.schema), (), (Alias(Agg(name, X), "a"),))
        (batch,) = execute_fragment(node, {0: part.to_batches()}, {})
        assert math.isclose(found[at], batch["a"][0].as_py(), rel_tol=1e-9)


def test_strings_lists_and_dictionaries_shift() -> None:
    texts = ["a", None, "c", "d"]
    table = pa.table({
        "i": range(4), "o": range(4), "x": pa.array(texts).dictionary_encode(),
        "l": [[1], None, [], [2, 3]],
    })  # fmt: skip
    found = windowed(
        table,
        Over(Agg("lag", X), (), BY_O),
        Over(Agg("lead", Column("l")), (), BY_O),
        Over(Agg("lag", X, (whole(2), Literal("z", pa.string()))), (), BY_O),
        Over(Agg("first_value", X), (), BY_O),
        Over(Agg("min", X), (), BY_O, Frame("rows", -1, 0)),
    )
    assert column(found) == [None, "a", None, "c"]
    assert column(found, "r1") == [None, [], [2, 3], None]
    assert column(found, "r2") == ["z", "z", "a", None]
    assert column(found, "r3") == ["a"] * 4
    assert column(found, "r4") == ["a", "a", "c", "c"]


def test_quantiles_take_their_constant() -> None:
    quarter = (Literal(0.25, F64),)
    found = windowed(
        TABLE,
        Over(Agg("quantile", X, quarter), (P,), BY_O),
        Over(Agg("min_by", Column("s"), (X,)), (P,)),
    )
    assert column(found) == [1.0, 1.25, 1.5, None, 3.0, 5.0]
    assert column(found, "r1") == ["a", "a", "a", "e", "e", "f"]


def test_many_rows_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabric.operators.fragment.over.sorted_rows._ROWS_AT_ONCE", 7)
    table = pa.table({"i": range(20), "x": [float(i % 5) for i in range(20)]})
    over = Over(Agg("count_distinct", X), (), (SortKey(ID),), Frame("rows", -3, -1))
    assert column(windowed(table, over, crumb=4)) == [0, 1, 2, *[3] * 17]


def test_a_filter_on_a_window_sees_all_rows() -> None:
    node = Window(
        StageInput(0, TABLE.schema), (Alias(Over(Agg("row_number", None), (P,), BY_O), "n"),)
    )
    first = Filter(node, Call("le", (Column("n"), whole(1))))
    batches = execute_fragment(first, {0: TABLE.to_batches()}, {}, target_partitions=2)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert sorted(row["i"] for row in rows) == [0, 3, 5]


def test_names_hold_anything() -> None:
    table = pa.table({'a "b"': [1, 2], "select": [2, 1], "i": [0, 1]})
    over = Over(Agg("sum", Column('a "b"')), (Column("select"),), (SortKey(Column('a "b"')),))
    assert column(windowed(table, over)) == [1, 2]
