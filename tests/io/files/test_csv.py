"""CSV as it is found: what is null, options, lines that don't fit, beside live Polars."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric.errors import ConfigError, DataError, PlanError
from fabric.io.files import csv, csv_input

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
    assert found == expected.to_dicts()
    assert [row["n"] for row in found] == [1, None, None, 4]
    assert found[1]["s"] is None  # in quotes, too
    assert found[0]["s"] == ("a,b" if nulls == "NA" else None)
    assert found[2]["s"] is None


@pytest.mark.parametrize(
    "text",
    [
        'n,s\n"NA","NA"\n2,"x,""NA"",y"\n"NA",""\n3,"NA"', '"NA",s\r\n"NA",x\r\n1,"NA"\r\n',
        'n,s\n1,"a\n""NA"""\n2,"NA"\n', 'n\n"NA"\n1\n"NA"\n', 'n,s\n1,"say ""NA"""\n"NA",NAN\n',
        'n,s\n1,"a ""b"""\n2,"""NA"\n',
    ],
)  # fmt: skip
def test_a_quoted_null_is_null_as_its_peers_have_it(
    read: Any, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_input, "_BLOCK_BYTES", 5)
    found = read(text, null_values="NA")
    path = str(tmp_path / "x.csv")
    told = duckdb.read_csv(path, na_values=["NA"], header=True, quotechar='"', escapechar='"')
    assert [tuple(row.values()) for row in found] == told.fetchall()
    theirs = pd.read_csv(
        path, na_values=["NA"], keep_default_na=False, skip_blank_lines=False,
        dtype_backend="pyarrow",
    )  # fmt: skip
    if '""' not in text:
        assert found == pa.Table.from_pandas(theirs).to_pylist()
    types = dict.fromkeys(found[0], "string")
    texts = read(text, null_values="NA", types=types, encoding="latin-1", comment="#")
    assert texts == [{k: v if v is None else str(v) for k, v in row.items()} for row in found]


def test_a_null_may_hold_quotes_and_delimiters(read: Any) -> None:
    text = 's,t\n"a ""b""","x,y"\n"a ""b"" ",", x,y"\n'
    found = read(text, null_values=['a "b"', "x,y"])
    assert found == [{"s": None, "t": None}, {"s": 'a "b" ', "t": ", x,y"}]


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
        ({"sep": ";", "delimiter": ";"}, PlanError, "was given sep and delimiter, which are one"),
        ({"types": {"a": "int8"}, "schema": {"a": "int8"}}, ConfigError, "not both"),
        ({"types": {"a": pa.list_(pa.int8())}}, ConfigError, "read as list<item: int8> ('a')"),
        ({"header": "no"}, ConfigError, "option header of read_csv is True or False, got 'no'"),
        ({"skip_rows": -1}, PlanError, "skip_rows"),
        (
            {"null_values": 3},
            ConfigError,
            "option null_values of read_csv is a list of texts, got 3",
        ),
        ({"null_values": [3]}, PlanError, "option null_values can't be [3]"),
        ({"comment": ["#"]}, ConfigError, "option comment of read_csv is a text, got ('#',)"),
        ({"schema": "loose"}, PlanError, "schema='loose' is not valid; use 'strict', 'union'"),
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


@pytest.mark.parametrize(
    "text",
    [
        "a\nx\n\n", "a\nx\n\ny", "a\nx\n\n\n", "a\n\n", "a\n1\n\n3\n", "a\r\nx\r\n\r\ny\r\n",
        "\n\na\nx\n", "a,b\n1,2\n\n3,4\n", "a,b\n1,2\n\n", "\r\na,b\r\n\r\n1,x\r\n",
        'a\n"x\n\ny"\n\n',
    ],
)  # fmt: skip
def test_a_blank_line_is_a_row_of_nulls_as_in_polars(
    read: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pl.read_csv(text.encode()).to_dicts()
    assert read(text) == expected
    assert read(text, comment="#") == expected
    assert read(f"#\n{text}", skip_rows=1) == expected
    assert read(text.replace("\n", "\n#\n", 1), comment="#") == expected
    assert read(text, ragged="fill") == read(text, ragged="skip") == expected
    names = list(expected[0])
    assert read(text, names=names, header=True) == expected
    monkeypatch.setattr(csv, "_BLOCK_BYTES", 9)
    assert read(text) == expected


@pytest.mark.parametrize("text", ["\n1\n\n", "\n1,x\n\n2,y\n", "1,x\n\n", "\n\n"])
def test_a_blank_line_without_a_header_is_a_row_too(read: Any, text: str) -> None:
    width = (text.count(",") and 2) or 1
    names = [f"f{place}" for place in range(width)]
    lines = text.removesuffix("\n").split("\n")
    wanted = [[(part or None) for part in (line or "," * (width - 1)).split(",")] for line in lines]
    as_text: dict[str, Any] = {"types": dict.fromkeys(names, "string")}
    for given in ({"header": False}, {"names": names}):
        for head, further in (("", {}), ("#\n", {"comment": "#"})):
            rows = read(head + text, **given, **as_text, **further)
            assert [list(row.values()) for row in rows] == wanted
    schema = {"schema": as_text["types"], "header": False}
    assert [list(row.values()) for row in read(text, **schema)] == wanted


@pytest.mark.parametrize("options", [{}, {"header": False}, {"quote_style": "never"}])
def test_a_null_of_one_column_comes_back(options: dict[str, Any], tmp_path: Path) -> None:
    given = {"header": False} if "header" in options else {}
    for values in (["x", None], [None, "x"], [None], [None, None, "x", None]):
        fabric.DataFrame(pa.table({"a": pa.array(values, pa.string())})).write_csv(
            tmp_path / "o.csv", mode="overwrite", **options
        )
        found = fabric.read_csv(tmp_path / "o.csv", **given).collect()
        assert found.column(0).to_pylist() == values
    rows = fabric.DataFrame({"k": [1, 2], "s": ["x", None]})
    rows.write_csv(tmp_path / "d", partition_by="k", **options)
    assert fabric.read_csv(tmp_path / "d", **given).count() == 2


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["12345678901234567890"], pa.uint64()),
        (["1", "", "18446744073709551615"], pa.uint64()),
        (["1", "18446744073709551616"], pa.decimal128(38, 0)),
        (["-1", "12345678901234567890"], pa.decimal128(38, 0)),
        (["-" + "9" * 38, " 007"], pa.decimal128(38, 0)),
        (["9" * 39, "1"], pa.string()),
        (["1.5", "12345678901234567890"], pa.float64()),
        (["1e20", "12345678901234567890"], pa.float64()),
        (["9223372036854775807", "-9223372036854775808"], pa.int64()),
    ],
)
def test_integers_are_exact(read: Any, tmp_path: Path, values: list[str], dtype: Any) -> None:
    read("id,n\n" + "".join(f"{value},x\n" for value in values))
    found = fabric.read_csv(tmp_path / "x.csv").collect()["id"]
    assert found.type == dtype
    wanted = {pa.float64(): float, pa.string(): str}.get(dtype, Decimal)
    assert found.to_pylist() == [wanted(value) if value else None for value in values]
    assert read("id\n0\n" + "\n".join(values), types={"id": "double"})[1]["id"] == (
        float(values[0])
    )


def test_an_integer_that_comes_late_is_never_rounded(read: Any) -> None:
    with pytest.raises(DataError, match=r"'id'.*'12345678901234567890'"):
        read("id\n" + "1\n" * 100 + "12345678901234567890\n", sample_bytes=50)


DAYS = [f"{day:02}.{month:02}.2023" for month in range(1, 13) for day in (1, 28, 29, 30, 31)]


@pytest.mark.parametrize(
    ("format", "cut"),
    [("%d.%m.%Y", "."), ("%d%m%Y", ""), ("%d/%m/%Y %H:%M", "/"), ("%d-%b-%Y", "-")],
)
def test_days_there_are_not_are_refused(tmp_path: Path, format: str, cut: str) -> None:
    for given in DAYS:
        day, month, year = map(int, given.split("."))
        try:
            time = dt.datetime(year, month, day)
        except ValueError:
            time = None
        text = given.replace(".", cut)
        if "%b" in format:
            text = f"{day:02}-{dt.date(2000, month, 1):%b}-{year}"
        text += " 00:00" if "%H" in format else ""
        path = tmp_path / f"{given}.csv"
        path.write_text(f"n,d\n1,\n2,{text}\n")
        options: Any = {"date_format": format}
        if not cut:
            options["types"] = pa.schema([("d", pa.date32())])
        schema = csv.file_schema(str(path), options)

        def rows(path: Path = path, options: Any = options, schema: Any = schema) -> Rows:
            batches = csv.read_units(str(path), options, schema, 0, 0)
            return [row for batch in batches for row in batch.to_pylist()]

        if time is None:
            message = (
                rf"'{text}' in row 2 of .*{given}.csv \(column 'd'\).*types=.*\"d\": \"string\""
            )
            with pytest.raises(DataError, match=message):
                rows()
        else:
            wanted = time if "%H" in format else time.date()
            assert rows() == [{"n": 1, "d": None}, {"n": 2, "d": wanted}]


def test_a_time_that_its_format_does_not_read_names_its_row(read: Any) -> None:
    with pytest.raises(DataError, match=r"'soon' in row 3 of .*x.csv \(column 'd'\)"):
        read("d\n01.02.2024\n\nsoon\n", date_format="%d.%m.%Y", sample_bytes=13)


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("a,d\n1,2.5\n1,1.005\n", {"types": {"d": "decimal(10,2)"}}, DataError,
         r"x.csv does not fit its column 'd' of type decimal128\(10, 2\).*'1.005' has more digits"
         r'.*types=\{"d": "string"\}'),
        ("d\n9999999999\n", {"types": {"d": "decimal(10,2)"}}, DataError, r"column 'd'.*99999"),
        ("a,t\n1,2024-01-01T10:00:00\n", {"types": {"t": "timestamp[us, tz=Europe/Berlin]"}},
         DataError, r"'t'.*expected a zone offset in '2024-01-01T10:00:00'; read it without its "
         r'zone, types=\{"t": "timestamp\[us\]"\}, then .dt.replace_time_zone\("Europe/Berlin"\)'),
        ("t\n2024-01-01T10:00:00Z\n", {"types": {"t": "timestamp[us]"}}, DataError,
         r'expected no zone offset in .*types=\{"t": "timestamp\[us, tz=UTC\]"\}'),
        ("t\nx\n", {"types": {"t": "timestamp[us, tz=Mars/Base]"}}, ConfigError,
         r"option types: there is no zone 'Mars/Base'.*\(column 't'\)"),
        ("t\nx\n", {"schema": {"t": "timestamp[us, tz=Mars/Base]"}}, ConfigError, "no zone"),
        ("t\n1.2.2024\n", {"types": {"t": "timestamp[us, tz=UTC]"}, "date_format": "%d.%m.%Y"},
         ConfigError, r"'t' is timestamp\[us, tz=UTC\], and date_format '%d.%m.%Y' reads no zone"),
        ("t\n1.2.2024 +0100\n", {"types": {"t": "date"}, "date_format": "%d.%m.%Y %z"},
         ConfigError, r"'t' is date32\[day\], and date_format '%d.%m.%Y %z' reads a zone"),
        ("t\nx\n", {"types": {"t": pa.string_view()}}, ConfigError, r"read as string_view \('t'\)"),
        ("t\nx\n", {"types": {"t": pa.float16()}}, ConfigError, r"read as halffloat \('t'\)"),
        ("t\n1\n", {"types": {"t": pa.decimal256(40, 2)}}, ConfigError, r"decimal256\(40, 2\)"),
        ("t\nx\n", {"encoding": "klingon"}, ConfigError, "there is no encoding 'klingon'; use"),
        (b"n,s\n1,\xe9\n", {}, DataError, r"column 's' of .*x.csv has bytes.*encoding=\"latin-1\""),
        (b"n,s\n1,x\n1,\xe9\n", {"sample_bytes": 8}, DataError, r"'s'.*encoding=\"latin-1\""),
    ],
)  # fmt: skip
def test_errors_say_which_column_and_what_to_write(
    read: Any, text: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        read(text, **options)
    assert "write or copy it anew" not in str(caught.value)
    assert "assume_timezone" not in str(caught.value)
