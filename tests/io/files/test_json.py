"""JSON as it is found and written: lines and arrays, beside live Polars and DuckDB."""

from __future__ import annotations

import datetime as dt
import json
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
from fabric.io.files import json_arrays, ndjson
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
    found = b"".join(ndjson._blocks(str(path), 10)).splitlines()
    assert [json.loads(line) for line in found] == rows


def test_lines_and_arrays_have_the_same_rows(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [{"a": n, "b": [{"c": f"x,]{n}"}], "s": 'q"\\'} for n in range(50)]
    by_line = "\n".join(map(json.dumps, rows))
    assert read(by_line) == rows
    monkeypatch.setattr(json_arrays, "_READ_BYTES", 7)
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
        ('{"a": 1, "a": 2}\n', "twice"),
        ('{"a": 1}\n{"a": "x"}\n', "changed from number to string"),
        ('{"a": 1}\n[1]\n', "is no JSON object"),
        ('{"a": 1}\n{"a": \n', "is not a whole JSON file"),
        ('[{"a": 1}, {"a": 2}', "the array is not closed"),
        ('[{"a": 1},, {"a": 2}]', "the array has an empty element"),
        ('[{"a": 1}] []', "there is text behind the end of the array"),
        ("[1, 2]", "is no JSON object"),
        ('["', "a text is opened and never closed"),
    ],
)
def test_what_is_no_table_is_named(read: Any, text: str, message: str) -> None:
    with pytest.raises(DataError, match=r"x.json is not a whole JSON file") as caught:
        read(text)
    assert message in str(caught.value)


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
