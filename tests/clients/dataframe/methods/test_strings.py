"""The methods of ``.str`` that are made of several functions, beside Polars' answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.errors import FabricError, PlanError
from fabric.operators.expressions.arrow import compile_expr

TEXTS = ["abc", "", "-12", "+7", "a😀b", None, "longer text", "abab", "b"]


def values(expr: Expr) -> list[Any]:
    batch = pa.record_batch({"s": pa.array(TEXTS, pa.string())})
    found: list[Any] = compile_expr(expr.node, batch.schema)(batch).to_pylist()
    return found


@pytest.mark.parametrize(
    "method",
    [
        lambda s: s.zfill(5),
        lambda s: s.zfill(1),
        lambda s: s.pad_start(5, "*"),
        lambda s: s.pad_end(5, "*"),
        lambda s: s.head(2),
        lambda s: s.head(0),
        lambda s: s.head(-1),
        lambda s: s.head(-20),
        lambda s: s.tail(2),
        lambda s: s.tail(0),
        lambda s: s.tail(-1),
        lambda s: s.tail(-20),
        lambda s: s.strip_prefix("ab"),
        lambda s: s.strip_suffix("b"),
        lambda s: s.strip_suffix(""),
        lambda s: s.strip_chars("ab"),
        lambda s: s.strip_chars_start("-+"),
        lambda s: s.len_bytes().cast(int),
        lambda s: s.len_chars().cast(int),
        lambda s: s.reverse(),
        lambda s: s.encode("hex"),
        lambda s: s.encode("base64"),
        lambda s: s.count_matches("[ab]").cast(int),
        lambda s: s.count_matches("b", literal=True).cast(int),
        lambda s: s.contains("^a", literal=False),
        lambda s: s.replace_all("b", "$0", literal=True),
        lambda s: s.extract_all("[ab]"),
        lambda s: s.split("b"),
        lambda s: s.starts_with("a"),
    ],
)
def test_as_polars(method: Callable[[Any], Any]) -> None:
    frame = pl.DataFrame({"s": TEXTS})
    (expected,) = frame.select(x=method(pl.col("s").str)).to_dict(as_series=False).values()
    ours = col("s").str
    assert values(method(_Casting(ours))) == expected


class _Casting:
    """Our namespace, whose answers know the casts of Polars."""

    def __init__(self, methods: Any) -> None:
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any, **options: Any) -> Any:
            return _Cast(getattr(self._methods, name)(*args, **options).node)

        return method


class _Cast(Expr):
    __slots__ = ()

    def cast(self, dtype: Any, *, strict: bool = True) -> Expr:
        return super().cast("int64" if dtype is int else dtype, strict=strict)


def test_places_count_bytes_from_0_as_in_polars_and_characters_from_1_as_in_sql() -> None:
    frame = pl.DataFrame({"s": TEXTS})
    theirs = frame.select(pl.col("s").str.find("b", literal=True)).to_series().to_list()
    assert values(col("s").str.find("b")) == theirs
    assert values(col("s").str.instr("b")) == [2, 0, 0, 0, 3, None, 0, 2, 1]


def test_left_and_right_as_in_sql() -> None:
    assert values(col("s").str.left(-1))[0] == ""
    assert values(col("s").str.right(2))[0] == "bc"
    assert values(col("s").str.right(-2))[0] == ""


def test_prefixes_may_be_columns() -> None:
    assert values(col("s").str.strip_prefix(col("s")))[:2] == ["", ""]
    assert values(col("s").str.strip_suffix(col("s")))[4:6] == ["", None]


def test_hex_and_base64_back() -> None:
    text = col("s").str.encode("hex").str.decode("hex").cast("string")
    assert values(text) == TEXTS
    text = col("s").str.encode("base64").str.decode("base64").cast("string")
    assert values(text) == TEXTS


@pytest.mark.parametrize("method", ["encode", "decode"])
def test_unknown_encodings(method: str) -> None:
    with pytest.raises(PlanError, match=f"{method} knows .*hex and base64, got 'rot13'"):
        getattr(col("s").str, method)("rot13")


@pytest.mark.parametrize("time_zone", [None, "Europe/Berlin"])
def test_no_offset_of_a_time_is_dropped(time_zone: Any) -> None:
    for text in ("2024-01-02T03:04:05Z", "2024-01-02 03:04:05.5+02:00", "2024-01-02 03:04:05 UTC"):
        read = DataFrame({"s": [text]}).select(col("s").str.to_datetime(time_zone=time_zone))
        with pytest.raises(FabricError, match="a zone: 2024-01-02"):
            read.collect()
    cast = DataFrame({"s": ["2024-01-02T03:04:05+02:00"]}).select(t=col("s").cast("timestamp"))
    assert cast.to_dicts() == [{"t": datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)}]
