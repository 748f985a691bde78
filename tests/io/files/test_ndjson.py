"""NDJSON that would kill the process, or be taken for rows, is an error that names the line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fabric.errors import DataError
from fabric.io.files import ndjson

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
OBJECTS = st.sampled_from(["{}", '{"a": 1}', ' {"a": 2}', '\t{"b": "x"}\r', '{"c": [null]}'])
OTHERS = st.sampled_from(["null", " null", "[]", "1", '"x"', "true", "\0", '{"a": 1} null', "}"])
BLANKS = st.sampled_from(["", "  ", "\r"])


def rows(path: Path, data: bytes, schema: pa.Schema = SCHEMA) -> list[dict[str, object]]:
    path.write_bytes(data)
    found = []
    for batch in ndjson.read_units(str(path), {}, schema, 0, 0):
        found += batch.to_pylist()
    return found


@given(lines=st.lists(OBJECTS | BLANKS, max_size=8), other=OTHERS, at=st.integers(0, 8))
def test_rows_up_to_the_first_line_that_is_no_object(tmp_path_factory, lines, other, at):
    path = tmp_path_factory.mktemp("lines") / "x.ndjson"
    n_objects = sum(bool(line.strip()) for line in lines)
    assert len(rows(path, "\n".join(lines).encode())) == n_objects
    at = min(at, len(lines))
    lines.insert(at, other)
    assume(not "".join(lines).lstrip().startswith("["))  # one array is whole or not at all
    with pytest.raises(DataError, match=f"x.ndjson can't be read from line {at + 1} on: "):
        rows(path, "\n".join(lines).encode())


@pytest.mark.parametrize("data", [b"null\n", b"null", b"\xef\xbb\xbfnull\n", b"[1]", b"{}\nnull\n"])
def test_types_are_not_found_from_what_is_no_object(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(DataError, match="is not a JSON object"):
        ndjson.file_schema(str(tmp_path / "x"), {})


def test_types_are_not_found_from_what_is_nested_too_deep(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b'{"z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    with pytest.raises(DataError, match="nested deeper than 100 levels"):
        ndjson.file_schema(str(path), {})
    assert rows(path, path.read_bytes()) == [{"a": None, "b": None}]
    path.write_bytes(b'{"z": [' + b"[1], " * 1_000 + b"[2]]}\n")
    assert ndjson.file_schema(str(path), {}).names == ["z"]


def test_text_is_utf_8(tmp_path):
    good = '\ufeff{"b": "\u00e9"}\n'.encode()
    assert rows(tmp_path / "x", good) == [{"a": None, "b": "\u00e9"}]
    with pytest.raises(
        DataError, match=r"from line 2 on: a text of column 'b' has .* not valid UTF-8"
    ):
        rows(tmp_path / "x", good + b'{"b": "\xff"}\n')
    (tmp_path / "x").write_bytes(b'{"\xff": 1}\n')
    with pytest.raises(
        DataError, match=r"x can't be read from line 1 on: it has .* not valid UTF-8"
    ):
        ndjson.file_schema(str(tmp_path / "x"), {})


def test_packed_files_are_unpacked(tmp_path):
    assert rows(tmp_path / "x.ndjson.gz", gzip.compress(b'{"a": 1}\n')) == [{"a": 1, "b": None}]


def test_lines_over_the_border_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(ndjson, "_BLOCK_BYTES", 10)
    data = b"".join(b'{"a": %d}\n' % i for i in range(100))
    assert [row["a"] for row in rows(tmp_path / "x", data)] == list(range(100))
    with pytest.raises(DataError, match="from line 101 on"):
        rows(tmp_path / "x", data + b"null")
    monkeypatch.setattr(ndjson, "_LINE_BYTES_MAX", 50)
    with pytest.raises(DataError, match="a line of more than 50 bytes"):
        rows(tmp_path / "x", b'{"b": "' + b"x" * 100 + b'"}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"n": 1} {"n": 2}\n', "^1 line holds 2 values; write one a line"),
        (b'{"n": 1} {"n": 2}\n{"n": 3}\n', "^2 lines hold 3 values"),
    ],
)
def test_two_objects_on_a_line_are_counted_in_words(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ndjson.parse(text, pa.schema([("n", pa.int64())]))
