"""CSV lines and plain values: held against Python's csv, and Arrow's reader and writer of files."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.codecs.text import CsvDecoder, CsvEncoder, TextDecoder, TextEncoder
from tests.support.arrays import FLOATS, INTEGERS, examples, values

NAMES = ("a", "b", "c")
TEXTS = pa.schema([(name, pa.string()) for name in NAMES])
KINDS = [
    *INTEGERS, *FLOATS[1:], pa.bool_(), pa.string(), pa.large_string(), pa.date32(),
    pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "UTC"),
    pa.time32("s"), pa.time64("us"), pa.decimal128(30, 6), pa.decimal128(7, 2),
]  # fmt: skip


def rows_of(decoder: Any, *lines: bytes | str | None) -> tuple[list[Any], dict[int, str]]:
    found = decoder.decode(pa.array([*lines], pa.binary()))
    found.batch.validate(full=True)
    return found.batch.to_pylist(), {bad.row: bad.reason for bad in found.bad}


@examples(3.0)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3).flatmap(
    lambda kinds: st.tuples(st.just(kinds), *(st.lists(values(k), min_size=4, max_size=4)
                                              for k in kinds))))  # fmt: skip
def test_lines_are_those_of_files_and_come_back(drawn: tuple[Any, ...]) -> None:
    kinds, *cells = drawn
    columns = [pa.array(cell, kind) for cell, kind in zip(cells, kinds, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
    lines = CsvEncoder(batch.schema).encode(batch)
    file = io.BytesIO()
    pc.write_csv(batch, file, pc.WriteOptions(include_header=False))
    assert b"".join(line + b"\n" for line in lines.to_pylist()) == file.getvalue()
    found = CsvDecoder(batch.schema).decode(lines)
    assert found.bad == ()
    assert str(found.batch.to_pydict()) == str(batch.to_pydict())  # NaN is one, too


@examples(3.0)
@given(st.lists(st.text('a,"\n\r é', max_size=5), min_size=3, max_size=3), st.booleans())
def test_what_python_writes_is_read(fields: list[str], always: bool) -> None:
    file = io.StringIO(newline="")
    style = csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL
    csv.writer(file, quoting=style).writerow(fields)
    rows, bad = rows_of(CsvDecoder(TEXTS), file.getvalue())
    plain = [field if field or always else None for field in fields]
    assert (rows, bad) == ([dict(zip(NAMES, plain, strict=True))], {})
    few = CsvDecoder(TEXTS, ["c", "a"])
    assert rows_of(few, file.getvalue())[0] == [{"c": plain[2], "a": plain[0]}]


@examples(3.0)
@given(st.text('a1,"\n\r', max_size=12))
def test_no_line_is_misread(line: str) -> None:
    """Whatever is accepted is what Python's strict reader makes of it."""
    rows, bad = rows_of(CsvDecoder(TEXTS), "1,2,3", line, "4,5,6")
    assert (rows[0]["a"], rows[-1]["c"]) == ("1", "6")
    assert [*bad] == ([] if len(rows) == 3 else [1])
    if len(rows) == 3:
        (expected,) = csv.reader(io.StringIO(line, newline=""), strict=True)
        assert [value or "" for value in rows[1].values()] == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2", "the line has 2 fields, expected 3"),
        ("1,2,3,4", "the line has 4 fields, expected 3"),
        ("1", "the line has 1 fields, expected 3"),
        ("", "column 'a': null is not allowed"),
        ("1,2,3\n4,5,6", "the value has more than one line"),
        ('1,"2,3', "a quote is not closed"),
        ('1,"2"x,3', "the line continues after a closing quote"),
        ("1,x,3", "column 'b': 'x' is not a valid int8"),
        ("1,128,3", "column 'b': '128' is not a valid int8"),
        (b"1,2,\xff", "column 'c': the text is not valid UTF-8"),
        (",2,3", "column 'a': null is not allowed"),
    ],
)
def test_bad_lines_leave_their_neighbours(line: str | bytes, reason: str) -> None:
    fields = [pa.field("a", pa.int8(), nullable=False), ("b", pa.int8()), ("c", pa.string())]
    rows, bad = rows_of(CsvDecoder(pa.schema(fields)), "1,2,x\r\n", line, "3, 4 ,y\n")
    assert rows == [{"a": 1, "b": 2, "c": "x"}, {"a": 3, "b": 4, "c": "y"}]
    assert bad == {1: reason}


def test_rules_are_kept() -> None:
    rules = {"delimiter": ";", "quote": "'", "null_values": ["NA"], "fill": True}
    decoder = CsvDecoder(TEXTS, **rules)
    rows, bad = rows_of(decoder, "'a;''';NA;'NA'", "x", "1;2;3;4", None)
    assert [[*row.values()] for row in rows] == [
        ["a;'", None, None], ["x", None, None], ["1", "2", "3"], [None] * 3
    ]  # fmt: skip
    assert bad == {}
    assert rows_of(CsvDecoder(TEXTS, quote=""), '"a,b",c')[0][0]["a"] == '"a'
    batch = pa.record_batch({"a": [1, None], "b": ["x", "y;"]})
    assert CsvEncoder(batch.schema, ";", "always").encode(batch)[0].as_py() == b'"1";"x"'
    with pytest.raises(ValueError, match="'y;' can't be written without quotes"):
        CsvEncoder(batch.schema, ";", "never").encode(batch)


@pytest.mark.parametrize("made", [CsvDecoder, CsvEncoder, TextDecoder, TextEncoder])
def test_nested_columns_are_refused(made: Any) -> None:
    with pytest.raises(ValueError, match=r"'a' is a struct, which a .* can't hold"):
        made(pa.schema([("a", pa.struct([("x", pa.int8())]))]))


@pytest.mark.parametrize("text", ["", ",,", "é", "\n", "\0"])
def test_a_delimiter_is_one_character(text: str) -> None:
    with pytest.raises(ValueError, match="one ASCII character"):
        CsvDecoder(TEXTS, delimiter=text)


@examples(3.0)
@given(st.sampled_from([*KINDS, pa.binary(), pa.binary(3)]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(values(kind), max_size=9), st.integers(0, 3))
))  # fmt: skip
def test_one_column_comes_back_from_its_text(drawn: tuple[Any, ...]) -> None:
    kind, cells, begin = drawn
    batch = pa.record_batch({"a": pa.array(cells, kind)}).slice(min(begin, len(cells)))
    texts = TextEncoder(batch.schema).encode(batch)
    texts.validate(full=True)
    assert texts.null_count == batch["a"].null_count
    found = TextDecoder(batch.schema).decode(texts)
    assert found.bad == ()
    assert str(found.batch.to_pydict()) == str(batch.to_pydict())


def test_plain_values_that_are_none() -> None:
    rows, bad = rows_of(TextDecoder(pa.schema([("a", pa.string())])), b"\xff", b"", None, "é")
    assert rows == [{"a": ""}, {"a": None}, {"a": "é"}]
    assert bad == {0: "column 'a': the text is not valid UTF-8"}
    assert rows_of(TextDecoder(pa.schema([("a", pa.binary(2))])), b"ab", b"abc")[1] == {
        1: "column 'a': 'abc' is not a valid binary of 2 bytes"
    }
    with pytest.raises(ValueError, match="have one column, not 2"):
        TextDecoder(pa.schema([("a", pa.string()), ("b", pa.string())]))
