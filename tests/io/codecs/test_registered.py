"""Rows behind a registry's ids: schemas that change in the middle of a topic."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest

from fabric.errors import ExternalError, PlanError
from fabric.io.codecs import check_format, format_schema, make_decoder, make_encoder
from fabric.io.codecs.avro import avro_columns, avro_decoder, avro_encoder, check_avro
from fabric.io.codecs.protobuf import (
    check_protobuf,
    protobuf_columns,
    protobuf_decoder,
    protobuf_encoder,
)
from fabric.io.schema_registry.client import Registry
from fabric.io.schema_registry.subjects import settled
from fabric.plan.places import RowFormat
from tests.io.kafka.scripted import scripted
from tests.services.apicurio import schema_registry

A = {"name": "a", "type": "int"}
JSON = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
B = {"name": "b", "type": "string", "default": "none"}


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def avro(topic: str, **more: Any) -> RowFormat:
    return RowFormat("avro", registry=schema_registry(), subject=f"{topic}-value", **more)


def headed(schema_id: int, schema: str, value: Any) -> bytes:
    out = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def test_a_schema_may_change_in_the_middle_of_a_topic() -> None:
    topic, registry = f"t-{uuid4()}", Registry(schema_registry())
    old, wide = record(A), record({**A, "type": "long"}, B)
    first = registry.register(f"{topic}-value", "AVRO", old)
    format = settled(RowFormat("avro", registry=schema_registry()), topic, reads=True)
    decoder = avro_decoder(format, pa.schema([("a", pa.int32())]))
    rows = [headed(first, old, {"a": 1})]
    assert decoder.decode(pa.array(rows)).batch.to_pylist() == [{"a": 1}]

    # A reader of the newest schema gets its defaults for what is older, without a restart.
    second = registry.register(f"{topic}-value", "AVRO", wide)
    newest = settled(RowFormat("avro", registry=schema_registry()), topic, reads=True)
    columns = avro_columns(newest, "")
    assert columns == pa.schema([("a", pa.int64()), ("b", pa.string())])
    rows = [*rows, headed(second, wide, {"a": 2, "b": "x"}), rows[0]]
    found = avro_decoder(newest, columns).decode(pa.array(rows))
    assert found.batch.to_pylist() == [
        {"a": 1, "b": "none"}, {"a": 2, "b": "x"}, {"a": 1, "b": "none"},
    ]  # fmt: skip
    # One of the old schema refuses by name what does not fit it: int from long.
    (bad,) = decoder.decode(pa.array(rows)).bad
    assert bad.row == 1
    assert f"written with schema {second}: Avro R.a was written as long" in bad.reason


def test_unknown_ids_and_other_kinds_are_bad_rows() -> None:
    registry = Registry(schema_registry())
    other = registry.register(f"s-{uuid4()}", "JSON", JSON)
    decoder = avro_decoder(avro("t"), pa.schema([("a", pa.int64())]))
    rows = [b"\0\x7f\0\0\0\x02", b"\0" + other.to_bytes(4, "big") + b"\x02"]
    reasons = [bad.reason for bad in decoder.decode(pa.array(rows)).bad]
    assert reasons[0] == f"the schema registry has no schema with id {0x7F000000}"
    assert f"schema {other} of the registry is JSON, expected AVRO" in reasons[1]


def test_what_is_written_is_registered_and_read_back() -> None:
    topic = f"t-{uuid4()}"
    columns = pa.schema([("a", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    format = settled(RowFormat("avro", registry=schema_registry()), topic, reads=False)
    check_avro(format, columns, writes=True)
    assert avro_columns(replace(format, subject=""), "") is None
    batch = pa.record_batch([[1, None], pa.array([5, 6]).cast(columns[1].type)], schema=columns)
    rows = avro_encoder(format, columns).encode(batch)
    reader = settled(RowFormat("avro", registry=schema_registry()), topic, reads=True)
    assert avro_columns(reader, "") == columns
    found = avro_decoder(reader, columns).decode(rows)
    assert found.batch.equals(batch)
    with pytest.raises(PlanError, match=r"R?ow\.c is not a field of Avro record Row"):
        check_avro(format, pa.schema([("c", pa.int8())]), writes=True)


def test_a_schema_that_the_registry_would_not_take_is_refused_before() -> None:
    topic, registry = f"t-{uuid4()}", Registry(schema_registry())
    registry.register(f"{topic}-value", "AVRO", record(A))
    registry._ask("PUT", f"/config/{topic}-value", b'{"compatibility": "BACKWARD"}')
    must = record(A, {"name": "b", "type": "string"})
    columns = pa.schema([("a", pa.int32()), ("b", pa.string())])
    with pytest.raises(PlanError, match=f"is incompatible with subject '{topic}-value'"):
        check_avro(avro(topic, schema_text=must), columns, writes=True)


@pytest.mark.parametrize(
    ("strategy", "topic", "subject"),
    [
        ("topic", "t", "t-key"),
        ("record", "t", "R"),
        ("topic_record", "t", "t-R"),
        ("record", "", "R"),
    ],
)  # fmt: skip
def test_subjects_are_named_by_their_strategy(strategy: Any, topic: str, subject: str) -> None:
    format = RowFormat("avro", schema_text=record(A), registry="http://h:1", strategy=strategy)
    assert settled(format, topic, "key", reads=False).subject == subject
    assert settled(format, topic, "key", reads=True) is format  # its schema is known


def test_a_reader_of_several_topics_needs_no_subject() -> None:
    format = RowFormat("avro", registry="http://h:1")
    assert settled(format, "", reads=True) is format


def test_rows_wait_in_the_decoder_while_the_registry_is_away() -> None:
    """Nothing is lost: the same call returns all rows once it answers again."""
    schema = (200, json.dumps({"schema": record(A)}).encode())
    with scripted((503, b""), (503, b""), schema) as server:
        format = RowFormat("avro", registry=server.url)
        decoder = make_decoder(format, pa.schema([("a", pa.int64())]))
        found = decoder.decode(pa.array([b"\0\0\0\0\1\2", b"\0\0\0\0\1\4"]))
        assert len(server.seen) == 3
    assert found.batch["a"].to_pylist() == [1, 2]


def test_a_registry_that_stays_away_is_an_error_that_may_be_retried() -> None:
    """And the decoder reads the same rows again when it is back."""
    schema = (200, json.dumps({"schema": record(A)}).encode())
    with scripted((503, b""), schema) as server:
        settings = (("wait.ms", "0"),)
        format = RowFormat("avro", registry=server.url, registry_settings=settings)
        decoder = make_decoder(format, pa.schema([("a", pa.int64())]))
        rows = pa.array([b"\0\0\0\0\1\2"])
        with pytest.raises(ExternalError, match="HTTP status 503") as caught:
            decoder.decode(rows)
        assert caught.value.retryable
        assert decoder.decode(rows).batch["a"].to_pylist() == [1]


def test_a_subject_that_nobody_can_name_is_refused() -> None:
    with pytest.raises(PlanError, match="derives the subject from the topic, which is a column"):
        settled(RowFormat("avro", registry="http://h:1"), "", reads=False)
    with pytest.raises(PlanError, match="derives the subject from the record name"):
        settled(RowFormat("json", registry="http://h:1", strategy="record"), "t", reads=False)


CLICK = 'syntax = "proto3"; package shop; message Other { string x = 1; } message Click { %s }'


def protobuf(topic: str, **more: Any) -> RowFormat:
    return RowFormat("protobuf", registry=schema_registry(), subject=f"{topic}-value", **more)


def test_messages_are_registered_and_read_back_by_their_place_in_the_file() -> None:
    topic = f"t-{uuid4()}"
    old = protobuf(topic, schema_text=CLICK % "int64 user = 1;", message="Click")
    columns = pa.schema([("user", pa.int64())])
    check_protobuf(old, columns, writes=True)
    first = protobuf_encoder(old, columns).encode(pa.record_batch({"user": [1, 2]}))
    assert first[0].as_py()[5:7] == b"\x02\x02"  # one index: message 1

    text = CLICK % "int64 user = 1; optional string page = 2;"
    new = protobuf(topic, schema_text=text, message="Click")
    wide = pa.schema([("user", pa.int64()), ("page", pa.string())])
    batch = pa.record_batch([[3], ["p"]], schema=wide)
    second = protobuf_encoder(new, wide).encode(batch)
    values = pa.concat_arrays([first, second, first])

    reader = protobuf(topic, message="shop.Click")
    assert protobuf_columns(reader, f"{topic}-value") == wide
    for format in (reader, new):
        found = protobuf_decoder(format, wide).decode(values)
        assert found.batch["user"].to_pylist() == [1, 2, 3, 1, 2]
        assert found.batch["page"].to_pylist() == [None, None, "p", None, None]
    other = protobuf_decoder(replace(reader, message="shop.Other"), pa.schema([("x", pa.string())]))
    reasons = [bad.reason for bad in other.decode(values).bad]
    assert len(reasons) == 5
    assert all(one.endswith("it is a message shop.Click, expected shop.Other") for one in reasons)


def test_columns_are_their_own_message_where_none_is_given() -> None:
    topic = f"t-{uuid4()}"
    columns = pa.schema([("a", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])
    batch = pa.record_batch([[None, 0], pa.array([5, None], columns[1].type)], schema=columns)
    format = protobuf(topic)
    check_protobuf(format, columns, writes=True)
    values = protobuf_encoder(format, columns).encode(batch)
    assert values[0].as_py()[5] == 0
    assert protobuf_columns(format, f"{topic}-value") == columns
    assert protobuf_decoder(format, columns).decode(values).batch.equals(batch)


@pytest.mark.parametrize("tail", [b"", b"\x80", b"\x01", b"\xff\xff\xff\x0f", b"\x04\x00\x80"])
def test_damaged_indexes_are_bad_rows(tail: bytes) -> None:
    decoder = protobuf_decoder(protobuf("t"), pa.schema([("a", pa.int64())]))
    (bad,) = decoder.decode(pa.array([b"\0\0\0\0\1" + tail])).bad
    assert bad.reason == "the message indexes after the schema id are corrupt"


def test_json_behind_ids_has_its_schema_registered() -> None:
    topic = f"t-{uuid4()}"
    format = settled(RowFormat("json", registry=schema_registry()), topic, reads=False)
    columns = pa.schema([("a", pa.int64()), ("tags", pa.list_(pa.string()))])
    batch = pa.record_batch([[1], [["x"]]], schema=columns)
    check_format(format, columns, writes=True)
    values = make_encoder(format, columns).encode(batch)
    assert values[0].as_py()[5:] == b'{"a":1,"tags":["x"]}'
    reader = settled(RowFormat("json", registry=schema_registry()), topic, reads=True)
    assert format_schema(reader, reader.subject) == columns
    assert make_decoder(reader, columns).decode(values).batch.equals(batch)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('{"type": "object", "properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": '
         '{"n": {"anyOf": [{"type": "null"}, {"type": "number"}]}}}', [("a", pa.float64())]),
        ('{"properties": {"a": {"enum": ["x", null]}, "m": {"type": "object", '
         '"additionalProperties": {"type": "integer"}}}}',
         [("a", pa.string()), ("m", pa.map_(pa.string(), pa.int64()))]),
        ('{"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}}',
         [("t", pa.timestamp("us", "UTC"))]),
    ],
)  # fmt: skip
def test_json_schemas_are_columns(text: str, columns: Any) -> None:
    assert format_schema(RowFormat("json", schema_text=text), "") == pa.schema(columns)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"type": "string"}', "expected an object"),
        (
            '{"properties": {"a": {"type": ["string", "integer"]}}}',
            "a is .*not a single column type",
        ),
        ('{"properties": {"a": {"$ref": "#"}}}', "contains itself"),
        ('{"properties": {"a": {"$ref": "http://x"}}}', "outside of the schema"),
    ],
)
def test_json_schemas_of_no_columns_are_refused(text: str, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        format_schema(RowFormat("json", schema_text=text), "")


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_formats_of_a_registry_are_made_by_their_name(name: Any) -> None:
    format = RowFormat(name, registry=schema_registry(), subject=f"s-{uuid4()}")
    columns = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batch = pa.record_batch([[1, None], ["x", "y"]], schema=columns)
    check_format(format, columns, writes=True)
    values = make_encoder(format, columns).encode(batch)
    assert format_schema(format, format.subject) == columns
    check_format(format, columns, writes=False)
    assert make_decoder(format, columns, ["b"]).decode(values).batch.equals(batch.select(["b"]))


def test_the_newest_schema_is_used_as_it_is_and_not_registered_anew() -> None:
    topic, registry = f"t-{uuid4()}", Registry(schema_registry())
    documented = json.dumps(json.loads(record(A, B)) | {"doc": "ours", "owner": "shop"})
    known = registry.register(f"{topic}-value", "AVRO", documented)
    format = settled(RowFormat("avro", registry=schema_registry()), topic, reads=False)
    columns = pa.schema([("a", pa.int32())])
    check_format(format, columns, writes=True)
    values = make_encoder(format, columns).encode(pa.record_batch({"a": pa.array([1], pa.int32())}))
    assert values[0].as_py()[:5] == b"\0" + known.to_bytes(4, "big")
    assert registry.newest(f"{topic}-value").version == 1
    given = replace(format, schema_text=documented)
    assert make_encoder(given, columns).encode(pa.record_batch({"a": pa.array([1], pa.int32())}))
    assert registry.newest(f"{topic}-value").version == 1
