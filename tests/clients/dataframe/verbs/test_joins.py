"""Verbs that join, beside DuckDB and Polars."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col
from fabric.errors import PlanError
from fabric.plan import nodes

LEFT = pa.table({"id": [1, 2, 2, None, 5], "a": [10, 20, 21, 30, 50], "v": [1, 2, 3, 4, 5]})
RIGHT = pa.table({"id": [2, 3, None, 5, 5], "b": [5, 25, 35, 45, 55], "v": [6, 7, 8, 9, 10]})


@pytest.fixture
def left() -> DataFrame:
    return DataFrame(LEFT)


@pytest.fixture
def right() -> DataFrame:
    return DataFrame(RIGHT)


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in frame.to_dicts())


def of_duckdb(query: str) -> list[str]:
    l, r = LEFT, RIGHT  # noqa: E741, F841  (DuckDB finds them by name)
    return sorted(map(repr, duckdb.sql(query).fetchall()))


@pytest.mark.parametrize(
    ("how", "query"),
    [
        ("inner", "select l.*, r.b, r.v from l join r using (id)"),
        ("left_outer", "select l.*, r.b, r.v from l left join r using (id)"),
        ("right", "select r.id, l.a, l.v, r.b, r.v from l right join r using (id)"),
        ("full_outer", "select coalesce(l.id, r.id), l.a, l.v, r.b, r.v from l full join r "
                       "using (id)"),
        ("outer", "select coalesce(l.id, r.id), l.a, l.v, r.b, r.v from l full join r using (id)"),
        ("leftsemi", "select * from l semi join r using (id)"),
        ("left_anti", "select * from l anti join r using (id)"),
    ],
)  # fmt: skip
def test_kinds(left: DataFrame, right: DataFrame, how: Any, query: str) -> None:
    joined = left.join(right, on="id", how=how)
    assert rows(joined) == of_duckdb(query)
    if joined.columns != left.columns:
        assert joined.columns == ["id", "a", "v", "b", "v_right"]


def test_cross(left: DataFrame, right: DataFrame) -> None:
    query = "select * from l, r"
    assert rows(left.cross_join(right)) == of_duckdb(query)
    assert rows(left.join(right, how="cross")) == of_duckdb(query)
    assert left.crossJoin(right).columns == ["id", "a", "v", "id_right", "b", "v_right"]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_conditions(left: DataFrame, right: DataFrame, how: Any) -> None:
    columns = "l.*" if how in ("semi", "anti") else "l.*, r.*"
    query = f"select {columns} from l {how} join r on l.a < r.b and l.v + 5 <> r.v"
    where = (col("a") < col("b")) & (col("v") + 5 != col("v_right"))
    assert rows(left.join(right, how=how, where=where)) == of_duckdb(query)
    keyed = f"select {columns} from l {how} join r on l.id = r.id and l.a < r.b"
    joined = left.join(right, left_on="id", right_on="id", how=how, where=col("a") < col("b"))
    if how in ("inner", "left", "semi", "anti"):
        wanted = of_duckdb(keyed.replace("r.*", "r.b, r.v"))
        assert rows(joined) == wanted
    assert rows(left.join_where(right, col("a") < col("b"), col("v") > 1)) == of_duckdb(
        "select l.*, r.* from l join r on l.a < r.b and l.v > 1"
    )


@pytest.mark.parametrize("closed", ["both", "left", "right", "none"])
def test_points_in_ranges(closed: Any) -> None:
    points = pa.table({"p": [0, 1, 5, 5, 9, None], "k": ["x", "x", "x", "y", "x", "y"]})
    ranges = pa.table(
        {"k": ["x", "x", "y"], "start": [0, 5, None], "end": [1, 9, 7], "p": [1, 2, 3]}
    )
    low = ">=" if closed in ("both", "left") else ">"
    high = "<=" if closed in ("both", "right") else "<"
    query = f"""select a.p, a.k, b.start, b.end, b.p from points a left join ranges b
                on a.k = b.k and a.p {low} b.start and a.p {high} b.end"""
    wanted = sorted(map(repr, duckdb.sql(query).fetchall()))
    events, shifts = DataFrame(points), DataFrame(ranges)
    ours = events.join_interval(shifts, "p", ("start", "end"), by="k", closed=closed, how="left")
    assert ours.columns == ["p", "k", "start", "end", "p_right"]
    assert rows(ours) == wanted
    turned = shifts.join_interval(events, ("start", "end"), "p", by="k", closed=closed)
    assert turned.count() == sum("None" not in row for row in wanted)


def test_ranges_that_overlap() -> None:
    a = pa.table({"s": [0, 3, 8], "e": [3, 4, 9]})
    b = pa.table({"s": [3, 5, None], "e": [5, 8, 9]})
    both = "select a.*, b.* from a join b on a.s <= b.e and b.s <= a.e"
    open_ = "select a.*, b.* from a join b on a.s < b.e and b.s < a.e"
    for closed, query in (("both", both), ("left", open_)):
        wanted = sorted(map(repr, duckdb.sql(query).fetchall()))
        joined = DataFrame(a).join_interval(
            DataFrame(b),
            ("s", "e"),
            ("s", "e"),
            closed=closed,  # type: ignore[arg-type]
        )
        assert rows(joined) == wanted
        assert isinstance(joined.plan.root, nodes.Join)


TRADES = pl.DataFrame(
    {
        "t": [0, 1, 4, 4, 7, 12, 30, None],
        "k": ["a", "b", "a", "b", "a", "b", "a", "a"],
        "n": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)
QUOTES = pl.DataFrame(
    {
        "t": [1, 4, 6, 9, 13, 2, 8],
        "k": ["a", "a", "a", "a", "b", "b", "b"],
        "price": [1.0, None, 3.0, 4.0, 5.0, 6.0, 7.0],
        "n": [1, 2, 3, 4, 5, 6, 7],
    }
)


@pytest.mark.parametrize("tolerance", [None, 2])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
def test_asof_as_polars(strategy: Any, by: Any, exact: bool, tolerance: Any) -> None:
    trades = TRADES.filter(pl.col("t").is_not_null()).sort("t")
    wanted = trades.join_asof(
        QUOTES.sort("t"), on="t", by=by, strategy=strategy, tolerance=tolerance,
        allow_exact_matches=exact, check_sortedness=False,
    )  # fmt: skip
    ours = DataFrame(trades).join_asof(
        DataFrame(QUOTES), on="t", by=by, strategy=strategy, tolerance=tolerance,
        allow_exact_matches=exact,
    )  # fmt: skip
    assert ours.columns == wanted.columns
    assert rows(ours) == sorted(map(repr, wanted.rows()))


def test_asof_keeps_rows_without_a_key_and_takes_times() -> None:
    noon = datetime(2026, 1, 1, 12)
    left = DataFrame({"at": [noon, noon + timedelta(minutes=30), None], "n": [1, 2, 3]})
    right = DataFrame({"when": [noon - timedelta(minutes=5), None], "v": [7, 8]})
    for strategy in ("backward", "forward", "nearest"):
        for tolerance in (None, "10m", timedelta(minutes=10)):
            found = left.join_asof(
                right, left_on="at", right_on="when", strategy=strategy,  # type: ignore[arg-type]
                tolerance=tolerance,
            )  # fmt: skip
            values = found.sort("n").collect()["v"].to_pylist()
            near = None if strategy == "forward" else 7
            assert values == [near, None if tolerance else near, None]
    dates = left.select(d=col("at").cast("date"), n="n" and col("n"))
    assert dates.join_asof(dates, on="d", tolerance="1d").sort("n").collect()["n_right"][2:] == (
        pa.chunked_array([[None]], pa.int64())
    )


def test_asof_keeps_settings_of_both() -> None:
    frame = DataFrame(TRADES).filter(col("n") > 1).named("late")
    frame = frame.configure("late", parallelism=2)
    joined = DataFrame(QUOTES).join_asof(frame, on="t", by="k", suffix="_2")
    assert joined.columns == ["t", "k", "price", "n", "n_2"]
    twice = joined.join_asof(frame, on="t")  # paths of two asof joins stay apart
    assert "join_asof_2/union" in repr(twice)
    assert dict(twice.plan.config) == {"late": nodes.NodeConfig(parallelism=2)}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda a, b: a.join(b, on="id", how="rigth"), r'write: how="right"'),
        (lambda a, b: a.join(b), r'join needs on="id"'),
        (lambda a, b: a.join(b, on="id", how="cross"), r'write: \.join\(other, how="cross"\)'),
        (lambda a, b: a.join(b, where=col("a") < col("bb")), r'where=col\("a"\) < col\("b"\)'),
        (lambda a, b: a.join(b, where=col("a") + 1), "must be true or false"),
        (lambda a, b: a.join_asof(b, on="idd"),
         r'join_asof, left side: .*write: \.join_asof\(other, left_on="id", right_on="idd"\)'),
        (lambda a, b: a.join_asof(b, left_on="id", right_on="idd", by="v"),
         r'right side: .*\.join_asof\(other, on="id", by="v"\)'),
        (lambda a, b: a.join_asof(b, on=["id", "v"]), r'by="\.\.\."'),
        (lambda a, b: a.join_asof(b, on="id", strategy="back"), "strategy='back' is not valid"),
        (lambda a, b: a.join_asof(b.with_columns(s=col("v").cast("string")),
                                  left_on="id", right_on="s"), "can't compare"),
        (lambda a, b: a.join_asof(b, on="id", tolerance="2h"), "tolerance of at least 0 for keys"),
        (lambda a, b: a.join_asof(b, on="id", tolerance=-1), "tolerance of at least 0"),
        (lambda a, b: a.join_asof(b, on="id", suffix=""), 'two columns called "v"'),
        (lambda a, b: a.join_asof(1, on="id"), "takes a DataFrame, got an int"),
        (lambda a, b: a.join_interval(b, "a", "b"), "needs a range on a side"),
        (lambda a, b: a.join_interval(b, "aa", ("b", "v")),
         r'left side: .*write: \.join_interval\(other, "a", right\)'),
        (lambda a, b: a.join_interval(b, "a", ("b", "vv")),
         r'right side: .*write: \.join_interval\(other, left, \("b", "v"\)\)'),
        (lambda a, b: a.join_interval(b, "a", ("b", "v", "id")), "a pair of columns as right"),
        (lambda a, b: a.join_interval(b, "a", ("b", "v"), closed="up"), "closed='up' is not valid"),
    ],
)  # fmt: skip
def test_refused(left: DataFrame, right: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(left, right)


@pytest.mark.parametrize(
    ("on", "how"),
    [
        (lambda a, b: a["a"] == b["b"], "inner"),
        (lambda a, b: b["b"] == a["a"], "left"),
        (lambda a, b: a["id"] == b["id"], "full"),
        (lambda a, b: [a["a"] == b["b"], a["id"] == b["id"]], "inner"),
        (lambda a, b: (a["a"] == b["b"]) & (a["x"] < b["y"]), "inner"),
        (lambda a, b: a["x"] > b["y"], "inner"),
        (lambda a, b: (a["a"] == b["b"]) & (a["x"] == 5), "left"),
        (lambda a, b: a["a"] + 1 == b["b"], "semi"),
        (lambda a, b: (a["a"] == b["b"]) | (a["x"] == b["y"]), "inner"),
    ],
)
def test_a_condition_as_pyspark_takes_it(on: Any, how: Any) -> None:
    """Beside DuckDB, with the sides' names written out."""
    left = pa.table({"a": [1, 2, 3, None], "id": [1, 1, 2, 3], "x": [5, 6, 7, 8]})
    right = pa.table({"b": [1, 2, 2, None], "id": [1, 2, 2, 4], "y": [6, 6, 5, 9]})
    a, b = DataFrame(left), DataFrame(right)
    text = on(_Sided("l"), _Sided("r"))
    where = " and ".join(f"({part.text})" for part in (text if isinstance(text, list) else [text]))
    found = a.join(b, on(a, b), how=how).collect()
    put_out = ", ".join(
        "coalesce(l.id, r.id)" if name == "id" and how == "full" and "id_right" not in
        found.column_names else f"r.{name.removesuffix('_right')}" if name in
        ("b", "y", "id_right") else f"l.{name}" for name in found.column_names
    )  # fmt: skip
    asked = f'select {put_out} from "left" l {how} join "right" r on {where}'
    with duckdb.connect() as connection:
        connection.register("left", left)
        connection.register("right", right)
        expected = connection.sql(asked).fetchall()
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert Counter(rows) == Counter(expected)


class _Sided:
    """Columns and conditions as SQL: ``_Sided("l")["a"]`` is ``l.a``."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, name: str) -> _Sided:
        return _Sided(f"{self.text}.{name}")

    def _with(self, sign: str, other: Any) -> _Sided:
        return _Sided(f"({self.text} {sign} {other.text if isinstance(other, _Sided) else other})")

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self._with("=", other)

    def __lt__(self, other: Any) -> Any:
        return self._with("<", other)

    def __gt__(self, other: Any) -> Any:
        return self._with(">", other)

    def __add__(self, other: Any) -> Any:
        return self._with("+", other)

    def __and__(self, other: Any) -> Any:
        return self._with("and", other)

    def __or__(self, other: Any) -> Any:
        return self._with("or", other)


def test_keys_may_be_expressions() -> None:
    a, b = DataFrame({"id": [1, 2], "t": [1, 2]}), DataFrame({"id": [2], "t": [1], "v": [9]})
    assert a.join(b.select("id", "v"), col("id")).to_dicts() == [{"id": 2, "t": 2, "v": 9}]
    near = a.join_asof(b, on="t", by=col("id")).sort("id").collect()
    assert near["v"].to_pylist() == [None, 9]


def test_a_condition_that_does_not_say_whose_column() -> None:
    a, b = DataFrame({"id": [1, 2]}), DataFrame({"id": [2, 3]})
    with pytest.raises(PlanError, match=r'whose it means; write: other\.rename\(\{"id": "id_rig'):
        a.join(b, a["id"] < b["id"])
    other = b.rename({"id": "id_right"})
    assert a.join(other, a["id"] < other["id_right"]).count() == 4 - 1


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_null_keys_that_match_each_other(how: Any) -> None:
    """Beside Polars; its full join keeps both keys."""
    left = pa.table({"k": [1, None, None, 2], "s": ["a", None, "b", None], "a": [1, 2, 3, 4]})
    right = pa.table({"k": [None, 1, 3, None], "s": [None, "a", None, "b"], "b": [5, 6, 7, 8]})
    for on in ("k", ["k", "s"]):
        keys = [on] if isinstance(on, str) else on
        expected = pl.from_arrow(left).join(
            pl.from_arrow(right), on=on, how=how, nulls_equal=True,
            **({"coalesce": True} if how == "full" else {}),
        )  # fmt: skip
        found = DataFrame(left).join(DataFrame(right), on=on, how=how, nulls_equal=True)
        assert set(found.columns) == set(expected.columns)
        rows = [Counter(map(repr, t.select(*found.columns).to_dicts())) for t in (
            found, expected)]  # fmt: skip
        assert rows[0] == rows[1], (how, keys)
    plain = DataFrame(left).join(DataFrame(right), on="k", how=how)
    safe = DataFrame(left).join(DataFrame(right), on="k", how=how, nulls_equal=True)
    assert plain.schema == safe.schema


def test_a_null_safe_equality_as_pyspark_writes_it() -> None:
    left = DataFrame({"a": [1, None, 3], "v": [1, 2, 3]})
    right = DataFrame({"b": [1, None, 4], "w": [10, 20, 40]})
    found = left.join(right, col("a").eqNullSafe(col("b"))).sort("v").select("v", "w")
    query = "SELECT v, w FROM l JOIN r ON a IS NOT DISTINCT FROM b ORDER BY v"
    l, r = left.to_arrow(), right.to_arrow()  # noqa: E741, F841
    assert found.to_dicts() == duckdb.sql(query).to_arrow_table().to_pylist()
