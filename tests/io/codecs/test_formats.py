"""Row formats by name, and values of Arrow IPC, hostile ones too."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ConfigError, PlanError
from fabric.io.codecs import check_format, make_decoder, make_encoder
from fabric.io.codecs.ipc import IpcDecoder, IpcEncoder
from fabric.plan.places import RowFormat
from tests.support.arrays import batches, examples

ROWS = pa.record_batch({"a": [1, 2, None], "b": ["x", None, "é"]})


@pytest.mark.parametrize("name", ["json", "csv", "ipc"])
def test_rows_come_back_in_every_format(name: str) -> None:
    format = RowFormat(name)  # type: ignore[arg-type]
    for writes in (True, False):
        check_format(format, ROWS.schema, writes=writes)
    values = make_encoder(format, ROWS.schema).encode(ROWS)
    assert len(values) == 3
    found = make_decoder(format, ROWS.schema).decode(values)
    assert (found.batch, found.bad) == (ROWS, ())
    few = make_decoder(format, ROWS.schema, ["b"]).decode(values)
    assert few.batch == ROWS.select(["b"])
    assert make_decoder(format, ROWS.schema, []).decode(values).batch.num_rows == 3


@pytest.mark.parametrize("name", ["text", "raw"])
def test_one_column_comes_back(name: str) -> None:
    format, rows = RowFormat(name), ROWS.select(["b"])  # type: ignore[arg-type]
    values = make_encoder(format, rows.schema).encode(rows)
    assert values.to_pylist() == [b"x", None, "é".encode()]
    assert make_decoder(format, rows.schema).decode(values).batch == rows


@pytest.mark.parametrize(
    ("format", "schema", "message"),
    [
        (RowFormat("raw"), ROWS.schema, "one column, got 2"),
        (RowFormat("raw"), pa.schema([("a", pa.int64())]), "cast it, or use format text"),
        (RowFormat("text"), ROWS.schema, "one column, got 2"),
        (RowFormat("csv"), pa.schema([("a", pa.list_(pa.int8()))]), "csv: column 'a' is a list"),
        (RowFormat("json"), pa.schema([("a", pa.month_day_nano_interval())]), "json: column 'a'"),
        (RowFormat("csv", (("delimiter", ";;"),)), ROWS.schema, "one ASCII character"),
    ],
)
def test_what_a_format_can_not_hold_is_refused(
    format: RowFormat, schema: pa.Schema, message: str
) -> None:
    for writes in (True, False):
        with pytest.raises(PlanError, match=message):
            check_format(format, schema, writes=writes)


@pytest.mark.parametrize(
    ("format", "message"),
    [
        (RowFormat("json", (("lines", True),)), "no option 'lines'"),
        (RowFormat("csv", (("delimiter", 1),)), "delimiter of format csv is a text, got 1"),
        (
            RowFormat("csv", (("ragged", "skip"),)),
            "ragged of format csv must be one of error, fill",
        ),
        (RowFormat("csv", (("quote_style", "x"),)), "quote_style of format csv must be one of"),
    ],
)
def test_options_that_mean_nothing_are_refused(format: RowFormat, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_format(format, ROWS.schema, writes=False)


def test_options_reach_the_codec() -> None:
    options = (("delimiter", ";"), ("null_values", ("NA",)), ("quote", "'"), ("ragged", "fill"))
    decoder = make_decoder(RowFormat("csv", options), ROWS.schema)
    found = decoder.decode(pa.array(["1;'x;y'", "NA", "2;NA;3"]))
    assert found.batch.to_pydict() == {"a": [1, None, 2], "b": ["x;y", None, None]}
    options = (("delimiter", ";"), ("quote_style", "always"))
    assert (
        make_encoder(RowFormat("csv", options), ROWS.schema).encode(ROWS)[0].as_py() == b'"1";"x"'
    )


# --- Arrow IPC


@examples(0.5)
@given(batches())
def test_any_batch_is_one_value_and_comes_back(batch: pa.RecordBatch) -> None:
    whole = IpcEncoder(batch.schema).encode_whole(batch)
    found = IpcDecoder(batch.schema).decode(pa.array([whole, None, whole]))
    assert found.bad == ()
    assert found.batch.num_rows == 2 * batch.num_rows
    assert found.batch.slice(batch.num_rows) == batch or str(found.batch) != ""
    assert found.origin is not None
    assert found.origin.tolist() == [0] * batch.num_rows + [2] * batch.num_rows


def test_messages_layouts_and_other_columns() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string_view()), ("z", pa.int8())])
    message = pa.record_batch(
        {"a": [7], "b": pa.array(["m"], "string_view"), "z": pa.array([1], "int8")}
    )
    other = ROWS.append_column("extra", pa.array([1, 2, 3]))
    stream = IpcEncoder(other.schema).encode_whole(other)
    values = [message.serialize().to_pybytes(), stream]
    found = IpcDecoder(schema).decode(pa.array(values))
    assert found.bad == ()
    assert found.batch.schema == schema
    assert found.batch.to_pydict() == {
        "a": [7, 1, 2, None], "b": ["m", "x", None, "é"], "z": [1, None, None, None]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.record_batch({"a": ["x"]}), "column 'a' is string, expected int64"),
        (pa.record_batch({"a": pa.array([None], "int64")}), "column 'a': null is not allowed"),
        (pa.record_batch({"n": pa.nulls(1 << 25)}), "more than 16777216 rows"),
    ],
)
def test_rows_that_do_not_fit_are_bad(batch: pa.RecordBatch, reason: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    good = IpcEncoder(schema).encode_whole(pa.record_batch([pa.array([1])], schema=schema))
    values = pa.array([good, IpcEncoder(batch.schema).encode_whole(batch), b"", good])
    found = IpcDecoder(schema).decode(values)
    assert found.batch["a"].to_pylist() == [1, 1]
    assert [bad.row for bad in found.bad] == [1, 2]
    assert reason in found.bad[0].reason


@given(st.integers(0, 2**32))
@examples(2.0)
def test_hostile_bytes_are_bad_or_valid(seed: int) -> None:
    """Whatever comes out may be walked by any kernel."""
    rng = random.Random(seed)
    rows = pa.record_batch(
        {
            "s": ["x" * 9, None, "yz"],
            "l": [[1], [], None],
            "d": pa.array(["p", "q", "p"]).dictionary_encode(),
        }
    )
    data = bytearray(IpcEncoder(rows.schema).encode_whole(rows))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    cut = rng.choice([len(data), rng.randrange(len(data))])
    found = IpcDecoder(rows.schema).decode(pa.array([bytes(data[:cut])]))
    found.batch.validate(full=True)
    assert len(found.bad) <= 1
    str(found.batch.to_pydict())
