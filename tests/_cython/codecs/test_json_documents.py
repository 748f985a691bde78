"""JSON decoder, document by document: held against Python's json; poison among good rows."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.codecs.text import JsonDecoder, JsonEncoder
from tests.support.arrays import examples

GOOD = b'{"a": 7}'


def decoded(schema: pa.Schema, *documents: bytes | str | None) -> tuple[list[Any], dict[int, str]]:
    found = JsonDecoder(schema).decode(pa.array([*documents], pa.binary()))
    found.batch.validate(full=True)
    assert found.batch.schema == schema
    return found.batch.to_pylist(), {bad.row: bad.reason for bad in found.bad}


WANTED = pa.schema(
    [
        ("i", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("b", pa.bool_()),
        ("l", pa.list_(pa.int64())), ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("m", pa.map_(pa.string(), pa.float64())),
    ]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=5)
    | st.floats(allow_nan=True),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*"iftblsmxyz", "é", 'k"\\']), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


def fits(value: Any, dtype: pa.DataType) -> bool:
    """Whether a value of Python's json is one of a type; a text that is not one: see `written`."""
    if value is None:
        return True
    t = pa.types
    if t.is_int64(dtype):
        return type(value) is int and -(2**63) <= value < 2**63
    if t.is_float64(dtype):
        return type(value) in (int, float)
    if t.is_boolean(dtype):
        return type(value) is bool
    if t.is_list(dtype):
        return type(value) is list and all(fits(v, dtype.value_type) for v in value)
    if t.is_map(dtype):
        return type(value) is dict and all(fits(v, dtype.item_type) for v in value.values())
    if t.is_struct(dtype):
        return type(value) is dict and all(fits(value.get(f.name), f.type) for f in dtype.fields)
    return type(value) is str


def as_rows(value: Any, dtype: pa.DataType) -> Any:
    """A value that fits as `to_pylist` has it."""
    if value is None:
        return None
    if pa.types.is_float64(dtype):
        return repr(float(value))
    if pa.types.is_map(dtype):
        return sorted((k, as_rows(v, dtype.item_type)) for k, v in value.items())
    if pa.types.is_struct(dtype):
        return {f.name: as_rows(value.get(f.name), f.type) for f in dtype.fields}
    return value


def check_document(document: bytes) -> None:
    """Hold one document against Python's json, between neighbours that must not notice."""
    found = JsonDecoder(WANTED).decode(pa.array([b'{"i": 1}', document, b'{"i": 2}'], pa.binary()))
    found.batch.validate(full=True)
    rows = found.batch.to_pylist()
    assert (rows[0]["i"], rows[-1]["i"]) == (1, 2)
    try:
        value = json.loads(document.decode().removeprefix("\ufeff"))
        json.dumps(value, ensure_ascii=False).encode()  # no half of a surrogate pair
    except ValueError:
        value = None
    text = value.get("t") if type(value) is dict else None
    is_written = text is not None and type(text) is not str
    good = type(value) is dict and all(
        fits(value.get(field.name), field.type)
        for field in WANTED
        if not is_written or field.name != "t"
    )
    assert [bad.row for bad in found.bad] == ([] if good else [1]), found.bad
    if not good:
        return
    for field in WANTED:
        got, wanted = rows[1][field.name], value.get(field.name)
        if field.name == "t" and is_written:
            assert repr(json.loads(got)) == repr(wanted)
        elif pa.types.is_map(field.type) and got is not None:
            assert sorted((k, None if v is None else repr(v)) for k, v in got) == as_rows(
                wanted, field.type
            )
        else:
            got = repr(got) if pa.types.is_float64(field.type) and got is not None else got
            assert got == as_rows(wanted, field.type)


@examples(3.0)
@given(st.dictionaries(st.sampled_from([*"iftblsmz"]), JSON, max_size=8), st.booleans(), st.data())
def test_documents_are_read_as_python_reads_them(
    value: dict[str, Any], ascii: bool, data: st.DataObject
) -> None:
    document = json.dumps(value, ensure_ascii=ascii, indent=data.draw(st.none() | st.just(1)))
    check_document(document.encode())


@examples(6.0)
@given(st.dictionaries(st.sampled_from([*"iftblsmz"]), JSON, max_size=4), st.data())
def test_damaged_documents_are_refused_as_python_refuses_them(
    value: dict[str, Any], data: st.DataObject
) -> None:
    document = bytearray(json.dumps(value, ensure_ascii=False).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(document) - 1)))
        piece = data.draw(
            st.binary(max_size=2) | st.sampled_from([*b'{}[],:"\\ ']).map(lambda c: bytes([c]))
        )
        document[at : at + data.draw(st.integers(0, 2))] = piece
    check_document(bytes(document))


POISON = {
    "nothing": b"", "spaces": b"  \n", "null": b"null", "a number": b"1", "a text": b'"x"',
    "an array": b'[{"a": 1}]', "truncated": b'{"a": 1', "truncated text": b'{"a": "x',
    "a key alone": b'{"a"', "no value": b'{"a":}', "two": b'{"a": 1}{"a": 2}',
    "two lines": b'{"a": 1}\n{"a": 2}', "trailing": b'{"a": 1} x', "trailing comma": b'{"a": 1,}',
    "no comma": b'{"a": 1 "b": 2}', "single quotes": b"{'a': 1}", "a comment": b'{"a": 1} // x',
    "not UTF-8": b'{"a": 1, "b": "\xff"}', "cut UTF-8": b'{"a": 1, "b": "\xe2\x82"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"), "a zero": b'{"a": 1}\x00',
    "half a pair": rb'{"a": 1, "b": "\ud800"}', "an escape": rb'{"a": 1, "b": "\x"}',
    "a newline in a text": b'{"a": 1, "b": "\n"}', "other bracket": b'{"a": 1, "b": [1}}',
    "other bracket behind": b'{"b": [1,2}, "a": 1}', "an open array": b'{"a": 1, "b": [1,2}',
    "no word": b'{"b": tru, "a": 1}', "octal": b'{"b": 012, "a": 1}', "plus": b'{"a": +1}',
    "half a number": b'{"a": 1.}', "deep": b'{"a": 1, "b": ' + b"[" * 99_999 + b"]" * 99_999 + b"}",
    "deep objects": b'{"b":' * 99_999 + b"1" + b"}" * 99_999,
    "deep and open": b'{"a": 1, "b": ' + b"[" * 99_999, "quotes": b'"' * 1001,
    "commas": b'{"a":1' + b"," * 1000, "long": b'{"a": ' + b"9" * 99_999 + b"}",
    "gzip": b"\x1f\x8b\x08\x00" + bytes(64), "avro": bytes(5) + b"\x02\x04ab",
}  # fmt: skip


@pytest.mark.parametrize("document", POISON.values(), ids=POISON)
def test_poison_is_one_bad_row(document: bytes) -> None:
    schema = pa.schema([("a", pa.int64())])
    rows, bad = decoded(schema, GOOD, document, GOOD, document, GOOD)
    assert rows == [{"a": 7}] * 3
    assert sorted(bad) == [1, 3]
    assert bad[1] == bad[3]
    assert 10 < len(bad[1]) < 200
    assert not bad[1].endswith(".")


def test_every_prefix_of_a_document_is_bad() -> None:
    whole = json.dumps({"i": -12, "t": "é\n", "l": [1, 2], "s": {"x": 1}, "m": {"k": 1.5}}).encode()
    for end in range(len(whole)):
        check_document(whole[:end])


def test_a_bad_row_is_taken_back_over_all_columns() -> None:
    schema = pa.schema([*WANTED, pa.field("n", pa.int8())])
    good = {
        "i": 1, "f": 0.5, "t": "x", "b": True, "l": [1, None], "s": {"x": 1, "y": None},
        "m": [("k", 1.0)], "n": 1,
    }  # fmt: skip
    text = json.dumps({**good, "m": {"k": 1.0}})
    for field in schema:
        bad_text = json.dumps({**good, "m": {"k": 1.0}, field.name: [[{}]], "t": None})
        if field.name != "t":
            rows, bad = decoded(schema, text, bad_text, text, *[bad_text, None] * 9, text)
            assert rows == [good, good, *[dict.fromkeys(schema.names)] * 9, good]
            assert len(bad) == 10


def test_of_a_repeated_key_the_last_value_counts() -> None:
    schema = pa.schema(
        [
            ("a", pa.list_(pa.string())),
            ("s", pa.struct([("x", pa.int8())])),
            ("m", pa.map_("string", "int8")),
        ]
    )
    document = (
        '{"a": ["x", "y"], "s": {"x": 1, "x": 2}, "a": ["z"], "m": {"k": 1, "j": 2, "\\u006b": 3}}'
    )
    assert decoded(schema, document, '{"a": [], "a": null, "s": {}, "s": {"x": 5, "x": null}}') == (
        [
            {"a": ["z"], "s": {"x": 2}, "m": [("j", 2), ("k", 3)]},
            {"a": None, "s": {"x": None}, "m": None},
        ],
        {},
    )
    rows, bad = decoded(schema, '{"a": 1, "a": ["x"]}')
    assert (rows, [*bad]) == ([], [0])


def test_keys_are_compared_unescaped() -> None:
    schema = pa.schema([('a"b\\u0063', pa.int8()), ("é", pa.int8())])
    assert decoded(schema, r'{"\u0061\"b\\u0063": 1, "\u00E9": 2}', r'{"a\"b\u0063": 1}')[0] == [
        {'a"b\\u0063': 1, "é": 2}, {'a"b\\u0063': None, "é": None}
    ]  # fmt: skip


def test_many_columns_in_any_order() -> None:
    names = [f"column_{i}" for i in range(300)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    row = {name: i for i, name in enumerate(names)}
    backwards = dict(reversed(row.items()))
    some = {name: row[name] for name in names[::7]}
    documents = [json.dumps(d) for d in (row, backwards, some, {**some, "other": [some]})]
    missing = {**dict.fromkeys(names), **some}
    assert decoded(schema, *documents) == ([row, row, missing, missing], {})


def test_what_can_not_be_null_is_a_bad_row() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    rows, bad = decoded(schema, '{"a": 1}', '{"b": 1}', '{"a": null}', None, '{"a": 2, "b": 3}')
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": 3}]
    assert bad == {
        1: "column 'a' is missing, and null is not allowed",
        2: "column 'a': null is not allowed",
        3: "the value is null, but a column is not nullable",
    }


def test_paths_and_long_values_are_named_short() -> None:
    schema = pa.schema([("a", pa.list_(pa.struct([("b", pa.int8())])))])
    _, bad = decoded(schema, json.dumps({"a": [{"b": 1}, {"b": "é" * 100}]}, ensure_ascii=False))
    assert bad == {0: "column 'a[].b': \"" + "é" * 19 + "… is not a valid int8"}


def test_a_registry_header_comes_before_the_document() -> None:
    rows = pa.record_batch({"a": pa.array([1, 2], pa.int8())})
    texts = JsonEncoder(rows.schema, b"\0\0\0\0\x07").encode(rows)
    assert texts.to_pylist() == [b'\0\0\0\0\x07{"a":1}', b'\0\0\0\0\x07{"a":2}']
    found = JsonDecoder(rows.schema, framed=True).decode(
        pa.chunked_array([texts, pa.array([b'{"a":1}', b"\0\0\0\0", b"\0\0\0\0\x07"])])
    )
    assert found.batch == rows
    assert [bad.row for bad in found.bad] == [2, 3, 4]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]
)
def test_values_of_any_layout(kind: pa.DataType) -> None:
    values = pa.array(["no", '{"a": 1}', None, "", '{"a": 2}'], kind).slice(1)
    found = JsonDecoder(pa.schema([("a", pa.int8())])).decode(values)
    assert found.batch.to_pydict() == {"a": [1, None, 2]}
    assert [bad.row for bad in found.bad] == [2]


def test_encodings_and_views_come_as_asked_for() -> None:
    schema = pa.schema(
        [("d", pa.dictionary(pa.int8(), pa.string())), ("v", pa.string_view()), ("n", pa.null()),
         ("l", pa.list_view(pa.int8()))]
    )  # fmt: skip
    texts = pa.array(['{"d": "x", "v": "y", "l": [1]}', '{"d": null}'])
    found = JsonDecoder(schema).decode(texts)
    assert found.batch.schema == schema
    assert found.batch.to_pydict() == {
        "d": ["x", None],
        "v": ["y", None],
        "n": [None, None],
        "l": [[1], None],
    }
    back = JsonEncoder(schema).encode(found.batch)
    assert back.to_pylist()[0] == b'{"d":"x","v":"y","n":null,"l":[1]}'


def test_types_and_batches_that_can_not_be() -> None:
    with pytest.raises(ValueError, match="can't be represented in JSON"):
        JsonDecoder(pa.schema([("a", pa.month_day_nano_interval())]))
    with pytest.raises(ValueError, match="keys are not scalars"):
        JsonEncoder(pa.schema([("a", pa.map_(pa.list_(pa.int8()), pa.int8()))]))
    with pytest.raises(TypeError, match="binary or string, got int64"):
        JsonDecoder(pa.schema([("a", pa.int8())])).decode(pa.array([1]))
    with pytest.raises(ValueError, match="the encoder expects the columns"):
        JsonEncoder(pa.schema([("a", pa.int8())])).encode(pa.record_batch({"b": [1]}))


def test_no_columns_are_rows_all_the_same() -> None:
    found = JsonDecoder(pa.schema([])).decode(pa.array(['{"a": 1}', "{}", "x"]))
    assert (found.batch.num_rows, [bad.row for bad in found.bad]) == (2, [2])
    assert JsonEncoder(pa.schema([])).encode(found.batch).to_pylist() == [b"{}", b"{}"]


def test_one_decoder_serves_many_batches_of_any_size() -> None:
    decoder = JsonDecoder(pa.schema([("a", pa.string())]))
    for size in (0, 1, 100_000, 5, 3_000_000, 70):
        text = json.dumps({"a": "é" * size})
        found = decoder.decode(pa.array([text, "{", text]))
        assert found.batch.to_pydict() == {"a": ["é" * size] * 2}
        assert [bad.row for bad in found.bad] == [1]


FLAT = pa.schema(
    [
        ("i", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("b", pa.bool_()),
        ("at", pa.timestamp("ms")), ("d", pa.decimal128(9, 2)), ("x", pa.binary()),
        ("s", pa.int16()), pa.field("must", pa.int64(), nullable=False),
    ]
)  # fmt: skip
DIGITS = st.text("0123456789", min_size=1, max_size=20)
TOKENS = (
    DIGITS
    | st.builds("-{}".format, DIGITS)
    | st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS)
    | st.floats(allow_nan=False).map(repr)
    | st.sampled_from(
        [*"0-{[", "-0", "-0.0", "1.", ".5", "1e5", "1E400", "01", "NaN", "true", "false", "null"]
    )
    | st.sampled_from(["nul", '""', '"\t"', '"\\n"', '"2024-01-02T03:04:05"', '"1.25"', "{}"])
    | st.text(max_size=12).map(json.dumps)
    | st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False))
)  # fmt: skip
TEXTS = st.text(max_size=20)
FITTING = {
    "i": st.integers(-(2**63), 2**63 - 1).map(str),
    "f": st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.decimals(-(10**9), 10**9, places=3).map(str),
    "t": TEXTS.map(json.dumps) | TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    "b": st.sampled_from(["true", "false"]),
    "at": st.integers(0, 10**13).map(str),
    "d": st.decimals(-(10**6), 10**6, places=2).map(str),
    "x": st.just('"YWI="'),
    "s": st.integers(-300, 300).map(str),
    "must": st.integers(0, 10**18).map(str),
}
NAMES = [*FLAT.names, "other", "é", "I", "", 'k"', "in"]
ANY = st.lists(st.tuples(st.sampled_from(NAMES), TOKENS), max_size=3)


@st.composite
def plain_documents(draw: st.DrawFn) -> bytes:
    """Objects of scalars, most of them as a producer writes them, some damaged."""
    names = [*draw(st.lists(st.sampled_from(FLAT.names), unique=True)), "must"]
    pairs = [(name, draw(FITTING[name] | st.just("null"))) for name in dict.fromkeys(names)]
    if draw(st.booleans()):
        pairs = draw(st.permutations(pairs + draw(ANY)))
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), (" :", ","), (":", ",,")]))
    fields = (json.dumps(name, ensure_ascii=False) + colon + token for name, token in pairs)
    document = f"{{{comma.join(fields)}}}".encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(document)))
        document = document[:at] + draw(st.binary(max_size=2)) + document[at + 1 :]
    return document


@examples(4.0)
@given(document=plain_documents())
def test_a_plain_document_means_what_the_parser_makes_of_it(document: bytes) -> None:
    """A line break is not plain, so the second one is read by simdjson alone."""
    plain, bad = decoded(FLAT, document)
    parsed, bad_too = decoded(FLAT, b"\n" + document)
    assert repr(plain) == repr(parsed)  # tells -0.0 from 0.0
    assert bad.keys() == bad_too.keys()


@pytest.mark.parametrize("name", FLAT.names)
def test_a_plain_value_is_what_the_parser_takes_for_one(name: str) -> None:
    """Each of these in a document that is plain otherwise."""
    odd = """0 -0 01 -01 00 - + +1 1. .5 -.5 0.5 1.50 -0.0 1e2 1E400 1.e5 0x1 1_0 nul null true True
        NaN 999999999999999999 9999999999999999999 -9223372036854775808 123456789012345.6
        0.1234567890123456 "" "a" "\t" "\\n" "2024-01-02T03:04:05" "1.25" "YWI=" "é" "\\" {} []"""
    for token in (*odd.split(), '"a b"', '"\t"'):
        pairs = ["must", *(["i"] if name == "must" else [name])]
        values = {"must": "1", "i": "1", name: token}
        text = "{" + ",".join(f'"{each}":{values[each]}' for each in pairs) + "}"
        both = (JsonDecoder(FLAT).decode(pa.array([each])) for each in (text, "\n" + text))
        plain, parsed = ([len(each.bad), *map(str, each.batch.columns)] for each in both)
        assert plain == parsed, token


def test_documents_that_are_not_plain_leave_no_trace() -> None:
    """They come often enough for the plain walk to give up for a while, and to come back."""
    schema = pa.schema([("i", pa.int64()), ("t", pa.string()), ("f", pa.float64())])
    rows: list[dict[str, Any]] = [
        {"i": n, "t": "é" if n % 3 else f"a{n}", "f": n / 100} for n in range(2_000)
    ]
    for row in rows[500:900:3]:
        row["t"] = f'"{row["i"]}\\'
    texts = [json.dumps(row, ensure_ascii=row["i"] % 7 == 0) for row in rows]
    texts[1_000:1_100] = [text[:-1] for text in texts[1_000:1_100]]
    found, bad = decoded(schema, *texts)
    assert found == rows[:1_000] + rows[1_100:]
    assert [*bad] == [*range(1_000, 1_100)]
