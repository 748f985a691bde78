"""CSV as it is found: what is null, options, lines that don't fit, beside live Polars."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric.errors import ConfigError, DataError, PlanError

Rows = list[dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """``read(text, **options)``: the rows of a file with that text."""

    def go(text: str | bytes, **options: Any) -> Rows:
        path = tmp_path / "x.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return fabric.read_csv(path, **options).to_dicts()

    return go


def test_empty_fields_as_polars_has_them(read: Any) -> None:
    text = 'n,s,t\n1,x,NA\n,,""\n3,"",NULL\n'
    assert read(text) == pl.read_csv(text.encode()).to_dicts()
    assert read(text)[1] == {"n": None, "s": None, "t": ""}


@pytest.mark.parametrize("nulls", ["NA", ["NA", "-", "a,b"]])
def test_null_values_add_to_the_empty_field(read: Any, nulls: Any) -> None:
    text = 'n;s\n1;a,b\nNA;"NA"\n;\n4;-\n'
    expected = pl.read_csv(
        text.encode(), separator=";", null_values=["", *([nulls] if nulls == "NA" else nulls)]
    )
    found = read(text, sep=";", null_values=nulls)
    assert [row["n"] for row in found] == expected["n"].to_list() == [1, None, None, 4]
    assert found[1]["s"] == "NA"  # quoted: a text
    assert found[0]["s"] == ("a,b" if nulls == "NA" else None)
    assert found[2]["s"] is None


def test_types_travel_with_commas_and_brackets(read: Any) -> None:
    types = {"d": "decimal(10,2)", "at": "timestamp[us, tz=UTC]", "i": pa.int8()}
    found = read("d,at,i,s\n1.5,2024-01-01T00:00:00Z,7,1\n,,,\n", types=types)
    assert found == [
        {"d": Decimal("1.50"), "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "i": 7, "s": 1},
        {"d": None, "at": None, "i": None, "s": None},
    ]
    assert read("d,x\n1,2\n", dtypes={"d": "string"}) == [{"d": "1", "x": 2}]


def test_a_header_or_names(read: Any) -> None:
    assert read("1,x\n2,y\n", header=False) == [{"f0": 1, "f1": "x"}, {"f0": 2, "f1": "y"}]
    assert read("1,x\n", has_header=False, names=["a", "b"]) == [{"a": 1, "b": "x"}]
    assert read("1,x\n", names=["a", "b"]) == [{"a": 1, "b": "x"}]
    assert read("p,q\n1,x\n", names=["a", "b"], header=True) == [{"a": 1, "b": "x"}]
    schema = {"a": "string", "b": "string"}
    assert read("1,x\n", schema=schema, header=False) == [{"a": "1", "b": "x"}]
    assert read("b,c,a\nx,0,1\n", schema=schema) == [{"a": "1", "b": "x"}]
    with pytest.raises(ConfigError, match=r"option schema names 'a', which .* does not have"):
        read("b,c\nx,0\n", schema=schema)


@pytest.mark.parametrize("separator", ["sep", "separator", "delimiter"])
def test_the_long_tail(read: Any, separator: str) -> None:
    text = (
        "made by hand\n\n# a comment\nday;price;s\n31.12.2024;1,50;x\n# another\n"
        "01.02.2025;-2,25;'it''s; y'\n"
    )
    options = {
        separator: ";", "skip_rows": 2, "comment": "#", "decimal": ",", "date_format": "%d.%m.%Y",
        "quote": "'",
    }  # fmt: skip
    assert read(text, **options) == [
        {"day": dt.date(2024, 12, 31), "price": 1.5, "s": "x"},
        {"day": dt.date(2025, 2, 1), "price": -2.25, "s": "it's; y"},
    ]
    assert len(read(text, **options, n_rows=1)) == 1
    assert read(text, **options, columns=["s"])[1] == {"s": "it's; y"}


def test_times_and_escapes_and_encodings(read: Any) -> None:
    assert read("t\n31/12/2024 10:30\n", date_format="%d/%m/%Y %H:%M") == [
        {"t": dt.datetime(2024, 12, 31, 10, 30)}
    ]
    assert read('s,n\n"say \\"hi\\", you",1\n', escape="\\") == [{"s": 'say "hi", you', "n": 1}]
    assert read("s\né\n".encode("latin-1"), encoding="latin-1") == [{"s": "é"}]
    assert read("#\ns\né\n".encode("utf-16"), encoding="utf-16", comment="#") == [{"s": "é"}]
    assert read('s,n\n"two\nlines",1\n') == [{"s": "two\nlines", "n": 1}]
    assert read('s,n\n"a"b,1\n', quote=None) == [{"s": '"a"b', "n": 1}]


def test_lines_of_other_lengths(read: Any) -> None:
    text = 'a,b,c\n1,x,2\n3,"y,\n#z"\n4,z,5,6,"7"\n8,"q"\n#8,9\n9\n'
    for how in ("error", None):
        with pytest.raises(DataError, match=r'x.csv is not a whole CSV file: .*ragged="fill"'):
            read(text, **({} if how is None else {"ragged": how}))
    filled = read(text, ragged="fill", comment="#")
    assert filled == [
        {"a": 1, "b": "x", "c": 2}, {"a": 3, "b": "y,\n#z", "c": None},
        {"a": 4, "b": "z", "c": 5}, {"a": 8, "b": "q", "c": None},
        {"a": 9, "b": None, "c": None},
    ]  # fmt: skip
    assert read(text, ragged="skip", comment="#") == [{"a": 1, "b": "x", "c": 2}]


def test_lines_of_other_lengths_as_polars_fills_them(read: Any) -> None:
    text = "a,b\n" + "".join(f"{n}{',x' * (n % 4)}\n" for n in range(20_000))
    expected = pl.read_csv(text.encode(), truncate_ragged_lines=True)
    assert read(text, ragged="fill") == expected.to_dicts()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delimeter": ";"}, ConfigError, "no option 'delimeter'; did you mean 'delimiter'?"),
        ({"sep": ";", "delimiter": ";"}, PlanError, "was given delimiter twice, also as"),
        ({"types": {"a": "int8"}, "schema": {"a": "int8"}}, ConfigError, "not both"),
        ({"types": {"a": pa.list_(pa.int8())}}, ConfigError, "can't be a list<item: int8> ('a')"),
        ({"header": "no"}, ConfigError, "option header of read_csv is True or False, got 'no'"),
        ({"skip_rows": -1}, PlanError, "skip_rows"),
        (
            {"null_values": 3},
            ConfigError,
            "option null_values of read_csv is a list of texts, got 3",
        ),
        ({"null_values": [3]}, PlanError, "option null_values can't be [3]"),
        ({"comment": ["#"]}, ConfigError, "option comment of read_csv is a text, got ('#',)"),
        ({"schema": "loose"}, PlanError, "schema='loose' is not one; use 'strict', 'union'"),
    ],
)
def test_options_are_refused_before_anything_is_read(
    read: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        read("a\n1\n", **options)
    assert message in str(caught.value)


def test_files_of_one_folder(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,\n")
    (tmp_path / "2.csv").write_text("a,b\n2,x\n")
    (tmp_path / "3.csv").write_text("a,b\n")
    frame = fabric.read_csv(tmp_path)  # a column that is empty in one file has the others' type
    assert frame.sort("a").to_dicts() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    (tmp_path / "0.csv").write_text("")  # as Spark writes a part without rows
    assert fabric.read_csv(tmp_path).count() == 2
    (tmp_path / "4.csv").write_text("b,a\ny,2.5\n")
    with pytest.raises(DataError, match=r"4.csv differs from .*1.csv: column 'a' is double"):
        fabric.read_csv(tmp_path)
    rows = fabric.read_csv(tmp_path, schema="union").sort("a").to_dicts()
    assert [rows[0], rows[-1]] == [{"a": 1.0, "b": None}, {"a": 2.5, "b": "y"}]
    with pytest.raises(PlanError, match=r"n_rows counts the rows of one file, and these are 5"):
        fabric.read_csv(tmp_path, n_rows=1)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", None, 'say "hi"', ""], pa.string_view()),
        pa.array(["x", None, "y", ""]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1, 2], pa.int8()), pa.array(["x", "y", ""], pa.string_view())
        ),
        pa.array(["x", None, "y", ""], pa.large_string()),
    ],
    ids=lambda column: str(column.type),
)
def test_texts_of_all_layouts_are_written(column: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3, 4], "s": column})
    fabric.DataFrame(table).write_csv(tmp_path / "x.csv")
    assert fabric.read_csv(tmp_path / "x.csv").collect()["s"].to_pylist() == column.to_pylist()
    assert pl.read_csv(tmp_path / "x.csv")["s"].to_list() == column.to_pylist()


def test_text_from_polars_is_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"s": ["x", None, ""]}, {"s": pl.Categorical})
    both = frame.with_columns(t=pl.col("s").cast(pl.String))
    fabric.DataFrame(both).write_csv(tmp_path / "x.csv", sep=";")
    assert (tmp_path / "x.csv").read_text() == '"s";"t"\n"x";"x"\n;\n"";""\n'


def test_rows_of_dicts_have_the_keys_of_all() -> None:
    rows: Rows = [{"a": 1}, {"b": "x"}, {"a": None, "c": 2.5}]
    found = fabric.from_dicts(rows).to_dicts()
    assert found == pl.from_dicts(rows).to_dicts() == [
        {"a": 1, "b": None, "c": None}, {"a": None, "b": "x", "c": None},
        {"a": None, "b": None, "c": 2.5},
    ]  # fmt: skip
    with pytest.raises(PlanError, match=r"a column's name is text, got 1 as the key of a row"):
        fabric.from_dicts([{1: "x"}])


def test_a_file_without_a_byte_alone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("")
    with pytest.raises(DataError, match=r"x.csv is not a whole CSV file: Empty CSV file"):
        fabric.read_csv(tmp_path / "x.csv")


def test_a_header_alone_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    found = fabric.read_csv(tmp_path / "x.csv").collect()
    assert found.schema == pa.schema([("a", pa.string()), ("b", pa.string())])
    assert found.num_rows == 0
