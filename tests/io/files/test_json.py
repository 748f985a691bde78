"""JSON as it is found and written: lines and arrays, beside live Polars and DuckDB."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fabric
from fabric.errors import ConfigError, DataError, PlanError
from fabric.io.files import json_input, ndjson
from fabric.io.sinks.json_texts import lines

Rows = list[dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """``read(text, **options)``: the rows of a file with that text."""

    def go(text: str, **options: Any) -> Rows:
        path = tmp_path / "x.json"
        path.write_text(text)
        return fabric.read_json(path, **options).to_dicts()

    return go


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=5),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
)
def test_arrays_become_lines(
    tmp_path: Path, rows: Rows, indent: int | None, ascii_only: bool
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=ascii_only))
    found = b"".join(ndjson._blocks(str(path), {}, 10)).splitlines()
    assert [json.loads(line) for line in found] == rows


def test_lines_and_arrays_have_the_same_rows(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [{"a": n, "b": [{"c": f"x,]{n}"}], "s": 'q"\\'} for n in range(50)]
    by_line = "\n".join(map(json.dumps, rows))
    assert read(by_line) == rows
    monkeypatch.setattr(json_input, "_READ_BYTES", 7)
    monkeypatch.setattr(ndjson, "_BLOCK_BYTES", 100)
    for indent in (None, 2):
        assert read(json.dumps(rows, indent=indent)) == rows
    assert read("[]") == []
    assert read("\n[ ] \n") == []


def test_missing_keys_are_null_and_types_may_be_given(read: Any, tmp_path: Path) -> None:
    assert read('{"a": 1}\n{"b": "x"}\n') == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    types = {"a": "decimal(10,2)", "d": "date"}
    assert read('{"a": "1.5", "d": "2024-01-31", "x": 1}', types=types) == [
        {"a": Decimal("1.50"), "d": dt.date(2024, 1, 31), "x": 1}
    ]
    assert read('{"a": 1, "z": 2}', schema={"b": "string", "a": "int8"}) == [{"b": None, "a": 1}]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.ndjson").write_text('{"a": 1}\n')
    (folder / "2.jsonl").write_text('{"b": null, "a": 2.5}\n')
    (folder / "3.json").write_text("")
    expected = [{"a": 1.0, "b": None}, {"a": 2.5, "b": None}]
    assert sorted(fabric.read_json(folder).to_dicts(), key=str) == expected
    (folder / "0.json").write_text("")
    with pytest.raises(DataError, match=r"2.jsonl differs from .*another column 'b'"):
        fabric.read_json(folder, schema="strict")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}, {"a": 2}', "the array is not closed"),
        ('[{"a": 1},, {"a": 2}]', "the array has an empty element"),
        ('[{"a": 1}] []', "there is text behind the end of the array"),
        ('["', "a text is opened and never closed"),
    ],
)
def test_what_is_no_array_is_named(read: Any, text: str, message: str) -> None:
    with pytest.raises(DataError, match=r"x.json is not a whole JSON file") as caught:
        read(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"a": 1, "a": 2}', "key 'a' is there twice; write each key once"),
        ('{"b": {"c": "x", "c": "y"}}', "key 'b.c' is there twice"),
        ('{"a": "x"}', '\'a\' changed from number to string; read it as text: types={"a": "string'),
        ('{"b": {"c": 1}}', '\'b.c\' changed from string to number; .* types={"b": "string"}'),
        ("[1]", "is not a JSON object"),
        ('{"a": ', "Invalid value$"),
    ],
)
@pytest.mark.parametrize("n_before", [1, 40])
def test_what_is_no_table_names_its_line(read: Any, bad: str, message: str, n_before: int) -> None:
    text = '{"a": 1, "b": {"c": "x"}}\n' * n_before + f'{bad}\n{{"a": 3}}\n'
    with pytest.raises(DataError) as caught:
        read(text)
    assert f"x.json can't be read from line {n_before + 1} on: " in str(caught.value)
    assert re.search(
        re.escape(message).replace(r"\.\*", ".*").replace(r"\$", "$"), str(caught.value)
    )


def test_a_column_that_is_given_as_text_takes_all_values(read: Any, tmp_path: Path) -> None:
    values = ["1.50", '"x"', "null", "true", '[1, "é\\n"]', '{"b": {"c": 1e3}}', "1" * 50, '""']
    wanted = ["1.50", "x", None, "true", '[1, "é\\n"]', '{"b": {"c": 1e3}}', "1" * 50, ""]
    text = "".join(f'{{"n": {n}, "a": {value}, "d": 1.25}}\n' for n, value in enumerate(values))
    for options in ({"types": {"a": "string", "d": "decimal(10,2)"}},
                  {"types": {"a": "large_string"}, "sample_bytes": 10},
                  {"schema": {"n": "int64", "a": "string", "d": "double"}}):  # fmt: skip
        found = read(text, **options)
        assert [row["a"] for row in found] == wanted
        assert [float(row["d"]) for row in found] == [1.25] * len(values)
    by = fabric.streams.files(
        tmp_path / "x.json", format="ndjson", grows=True, until="now", types={"a": "string"}
    )
    assert [row["a"] for row in by.collect().to_pylist()] == wanted


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["12345678901234567890"], pa.uint64()),
        (["1", "null", "18446744073709551615"], pa.uint64()),
        (["-1", "12345678901234567890"], pa.decimal128(38, 0)),
        (["1.5", "12345678901234567890"], pa.float64()),
        (["1e20", "2e300"], pa.float64()),
        (["[1, 12345678901234567890]", "[]", "null"], pa.list_(pa.uint64())),
        (['{"b": [-1, 12345678901234567890], "c": 2e300, "d": 0.5}'], pa.struct([
            ("b", pa.list_(pa.decimal128(38, 0))), ("c", pa.float64()), ("d", pa.float64())])),
    ],
)  # fmt: skip
def test_integers_are_exact(
    read: Any, tmp_path: Path, values: list[str], dtype: pa.DataType
) -> None:
    read("".join(f'{{"id": {value}, "n": "x"}}\n' for value in values))
    found = fabric.read_json(tmp_path / "x.json").collect()["id"]
    assert found.type == dtype
    whole = float if dtype == pa.float64() else int
    assert found.to_pylist() == [json.loads(value, parse_int=whole) for value in values]


def test_integers_that_can_not_be_exact_are_never_rounded(read: Any, tmp_path: Path) -> None:
    for long in ("9" * 39, "[" + "9" * 39 + "]"):
        with pytest.raises(DataError, match=r"line 2 on: integers of column 'a'.*\"a\": \"string"):
            read(f'{{"a": null}}\n{{"a": {long}}}\n')
        assert read(f'{{"a": {long}}}', types={"a": "string"}) == [{"a": long}]
    assert read('{"a": [1]}', types={"a": "string"}) == [{"a": "[1]"}]
    with pytest.raises(DataError, match=r"line 51 on: '12345678901234567890' is not a valid int64"):
        read('{"a": 1}\n' * 50 + '{"a": 12345678901234567890}\n', sample_bytes=50)
    column = pa.array([2**64 - 1, 0, None], pa.uint64())
    fabric.DataFrame(pa.table({"u": column})).write_json(tmp_path / "u.json")
    assert fabric.read_json(tmp_path / "u.json").collect()["u"].combine_chunks().equals(column)
    with pytest.raises(DataError, match=r"line 2 on: column 'h': a value is too large"):
        read('{"h": 1.5}\n{"h": 70000}\n', types={"h": pa.float16()})
    with pytest.raises(DataError, match=r"line 1 on: column 'h': a value is too large"):
        read('{"h": [null, 70000]}\n', types={"h": pa.list_(pa.float16())})
    wide, narrow = pa.decimal128(10, 2), pa.decimal128(4, 2)
    for long, dtype in (("9999999999", wide), ("[9999]", pa.list_(narrow))):
        with pytest.raises(
            DataError, match=r"line 2 on: column 'd': 9999.* has more digits than dec"
        ):
            read(f'{{"d": null}}\n{{"d": {long}}}\n', types={"d": dtype})


UTC = dt.UTC


@pytest.mark.parametrize(
    ("texts", "dtype"),
    [
        (["2024-01-01"], pa.timestamp("s")),
        (["2024-01-01", "2024-01-01 10:00", "2024-01-01T10:00:00"], pa.timestamp("s")),
        (["2024-01-01T10:00:00.5", "2024-01-01T10:00:00"], pa.timestamp("us")),
        (["2024-01-01T10:00:00.1234567"], pa.timestamp("ns")),
        (["2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00Z"], pa.timestamp("s", "UTC")),
        (["2024-01-01T10:00:00.000001-05:00"], pa.timestamp("us", "UTC")),
        (["2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00"], pa.string()),
        (["2024-01-01", "2024-01-01T10:00:00Z"], pa.string()),
        (["2024-01-01", "soon"], pa.string()),
        (["soon", "2024-01-01"], pa.string()),
    ],
)
@pytest.mark.parametrize("form", ['{"t": %s}', '{"t": [null, %s]}', '{"t": {"u": [{"v": %s}]}}'])
def test_times_keep_their_zone_and_fraction(
    tmp_path: Path, texts: list[str], dtype: pa.DataType, form: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text("".join(form % json.dumps(text) + "\n" for text in texts))
    found = fabric.read_json(path).collect()["t"].combine_chunks()
    while pa.types.is_nested(found.type):
        found = found.flatten()[0] if pa.types.is_struct(found.type) else found.flatten()
    found = found.drop_null()
    assert found.type == dtype
    assert found.equals(pa.array(texts).cast(dtype))


@pytest.mark.parametrize(
    ("text", "dtype", "message"),
    [
        ("2024-01-01T10:00:00+02:00", "timestamp[us]",
         r"'t': .*expected no zone offset; name a zone: types=\{\"t\": \"timestamp\[us, tz=UTC\]"),
        ("2024-01-01T10:00:00", "timestamp[us, tz=Europe/Berlin]",
         r"'t': .*expected a zone offset.*; read it without its zone, types=\{\"t\": "
         r"\"timestamp\[us\]\"\}, then .dt.replace_time_zone\(\"Europe/Berlin\"\)"),
        ("soon", "date", r"'t': .*'soon'.*types=\{\"t\": \"string\"\}"),
    ],
)  # fmt: skip
def test_a_zone_is_never_added_or_lost(read: Any, text: str, dtype: str, message: str) -> None:
    lines = f'{{"t": null}}\n{{"t": "{text}"}}\n'
    with pytest.raises(
        DataError, match=f"x.json can't be read from line 2 on: column {message}"
    ) as no:
        read(lines, types={"t": dtype})
    assert "assume_timezone" not in str(no.value)


def test_zoned_times_come_back_from_what_we_write(tmp_path: Path) -> None:
    for zone, unit in (("Europe/Berlin", "us"), ("UTC", "s"), ("+05:30", "ns")):
        column = pa.array([1_700_000_000, None, 0], pa.timestamp("s", zone)).cast(
            pa.timestamp(unit, zone)
        )
        fabric.DataFrame(pa.table({"t": column})).write_json(tmp_path / unit)
        found = fabric.read_json(tmp_path / unit).collect()["t"]
        assert found.type.tz == "UTC"
        assert found.cast(pa.timestamp(unit, "UTC")).equals(
            pa.chunked_array([column.cast(pa.timestamp(unit, "UTC"))])
        )
    with pytest.raises(ConfigError, match=r"option types: there is no zone 'Mars/Base'.*'t'"):
        fabric.read_json(tmp_path / "s", types={"t": "timestamp[us, tz=Mars/Base]"})


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"a": "x"}, "changed from number to string"),
        ({"a": 1, "new": 2}, r"unexpected field.*types=\{…\}, or raise sample_bytes="),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_what_comes_behind_the_head_names_its_line(
    read: Any, tmp_path: Path, bad: Any, message: str, array: bool
) -> None:
    texts = ['{"a": 1}'] * 100 + [bad if isinstance(bad, str) else json.dumps(bad)]
    text = f"[{', '.join(texts)}]" if array else "\n".join(texts)
    with pytest.raises(DataError, match=rf"x.json can't be read from line 101 on: .*{message}"):
        read(text, sample_bytes=50)
    frame = fabric.read_json(tmp_path / "x.json", sample_bytes=50)
    with pytest.raises(DataError, match="line 101"):
        frame.select("a").write_json(tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_options_are_refused(read: Any) -> None:
    with pytest.raises(ConfigError, match=r"read_json has no option 'lines'; .*it has: "):
        read("{}", lines=True)
    with pytest.raises(ConfigError, match=r"read_json has no option 'sep'; "):
        read("{}", sep=";")
    with pytest.raises(ConfigError, match="not both"):
        read("{}", types={"a": "int8"}, schema={"a": "int8"})
    for dtype in (pa.time32("s"), pa.list_(pa.duration("s")), pa.map_(pa.string(), pa.int8())):
        with pytest.raises(ConfigError, match=r"a column of a JSON file can't be read as .*'a'"):
            read("{}", types={"a": dtype})


SIMPLE = pa.table({
    "i": [1, None, -3], "f": [1.0, 2.5e300, None], "s": ['q"\\\n\x01é', "", None],
    "b": [True, None, False], "d": [dt.date(2024, 1, 31), None, dt.date(1, 1, 1)],
    "l": [["x", None], [], None], "st": [{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}],
})  # fmt: skip


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    fabric.DataFrame(SIMPLE).write_json(path)
    assert fabric.read_json(path, schema=SIMPLE.schema).collect().equals(SIMPLE)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {**row, "d": row["d"] and str(row["d"])} for row in SIMPLE.to_pylist()
    ]
    wanted = [{k: v for k, v in row.items() if k != "d"} for row in SIMPLE.to_pylist()]
    assert pl.read_ndjson(path).drop("d").to_dicts() == wanted
    told = duckdb.sql(f"from read_json('{path}')").to_arrow_table()
    assert told.drop_columns(["d"]).to_pylist() == wanted
    for folder, options in (("by", {"partition_by": "b"}), ("parts", {"max_rows_per_file": 1})):
        fabric.DataFrame(SIMPLE).write_json(tmp_path / folder, **options)  # type: ignore[arg-type]
        assert fabric.read_json(tmp_path / folder).count() == 3


@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_an_array_that_is_written_comes_back(n_rows: int, tmp_path: Path) -> None:
    path, rows = tmp_path / "x.json", SIMPLE.drop_columns(["d"]).slice(0, n_rows)
    fabric.DataFrame(pa.concat_tables([rows.slice(0, 1), rows.slice(1)])).write_json(
        path, lines=False
    )
    assert json.loads(path.read_text()) == rows.to_pylist()
    assert fabric.read_json(path, schema=rows.schema).collect().equals(rows)
    if n_rows:
        assert pl.read_json(path).to_dicts() == rows.to_pylist()
        fabric.DataFrame(rows).write_json(tmp_path / "parts", lines=False, max_rows_per_file=1)
        assert fabric.read_json(tmp_path / "parts").count() == n_rows


def test_a_stream_writes_no_array(tmp_path: Path) -> None:
    to = fabric.streams.to_files(tmp_path / "out", format="json", lines=False)
    made = fabric.streams.generator(n_rows=1)
    with pytest.raises(ConfigError, match="a stream writes JSON lines"):
        made.write_stream(to)
    assert not (tmp_path / "out").exists()


def test_values_have_the_forms_that_are_promised() -> None:
    batch = pa.record_batch({
        "f": pa.array([float("nan"), float("-inf")]),
        "z": pa.array([0, 1], pa.timestamp("us", "+02:00")),
        "t": pa.array([0, 1], pa.timestamp("ns")), "c": pa.array([1, None], pa.time32("s")),
        "d": pa.array([Decimal("1E+3"), None], pa.decimal128(10, 2)), "x": [b"\xff", b""],
        "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())), "n": pa.nulls(2),
        "v": pa.array(["a", "b"], pa.string_view()), "e": pa.array(["a", None]).dictionary_encode(),
        "w": pa.array([1.0, 0.1], pa.float32()), "u": pa.array([2**64 - 1, 0], pa.uint64()),
    })  # fmt: skip
    assert lines(batch).decode().splitlines() == [
        '{"f":null,"z":"1970-01-01T00:00:00.000000Z","t":"1970-01-01T00:00:00.000000000",'
        '"c":"00:00:01","d":1000.00,"x":"/w==","m":{"k":1},"n":null,"v":"a","e":"a","w":1.0,'
        '"u":18446744073709551615}',
        '{"f":null,"z":"1970-01-01T00:00:00.000001Z","t":"1970-01-01T00:00:00.000000001",'
        '"c":null,"d":null,"x":"","m":{},"n":null,"v":"b","e":null,"w":0.1,"u":0}',
    ]
    assert lines(batch.slice(1)) == lines(batch).split(b"\n")[1] + b"\n"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.duration("us")),
        pa.array([[1]], pa.list_(pa.duration("s"))),
        pa.array([[(1, 1)]], pa.map_(pa.int8(), pa.int8())),
    ],
    ids=lambda column: str(column.type),
)
def test_what_json_has_no_form_for_is_refused_before(column: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"a JSON file can't hold column 'a' of type"):
        fabric.DataFrame(pa.table({"a": column})).write_json(tmp_path / "x.json")
    assert not list(tmp_path.iterdir())
