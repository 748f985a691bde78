"""What `read_kafka` makes of what a user says, and what it refuses at the call."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import formats
from fabric.errors import PlanError
from fabric.plan.nodes import StreamScan
from fabric.plan.places import RowFormat
from fabric.plan.printer import tree
from fabric.plan.sources import KafkaStream
from fabric.plan.stream import BAD_RECORD_SCHEMA
from fabric.plan.svg import svg

SCHEMA = {"id": "int64", "text": "string"}
SECRET = "do-not-show"


def source(*topics: Any, **options: Any) -> KafkaStream:
    frame = read(*topics, **options)
    assert isinstance(frame.plan.root, StreamScan)
    assert isinstance(frame.plan.root.source, KafkaStream)
    return frame.plan.root.source


def read(*topics: Any, **options: Any) -> fabric.DataFrame:
    return fabric.read_kafka(*topics, **{"servers": "h:1", "schema": SCHEMA, **options})


def test_what_is_said_is_in_the_plan() -> None:
    assert source("t") == KafkaStream("h:1", ("t",))
    found = source(
        ["a", "b"], servers=["h:1", "g:2"], key="k", key_format="text", offset="o", topic="at",
        start=datetime(1970, 1, 1, 0, 0, 1), until="now", on_expired="latest", on_bad="side",
        isolation="read_uncommitted", group="g", discover="2 seconds", rows_per_s=5, bytes_per_s=6,
        buffer_bytes=1 << 20, settings={"sasl.username": "u", "sasl.password": SECRET},
    )  # fmt: skip
    assert found == KafkaStream(
        "h:1,g:2", ("a", "b"), key=("k",), key_format=RowFormat("text"),
        columns=(("topic", "at"), ("offset", "o")), start="time", start_ms=1_000, until="now",
        on_expired="latest", on_bad="side", isolation="read_uncommitted", group="g",
        discover_s=2.0, rows_per_s=5, bytes_per_s=6, buffer_bytes=1 << 20,
        settings=(("sasl.username", "u"),), secrets=(("sasl.password", SECRET),),
    )  # fmt: skip
    assert source(pattern="x.*").pattern == "x.*"
    starts = {"t": 5, "u": {0: 1, 3: 2}}
    assert source(["t", "u"], start=starts).offsets == (("t", -1, 5), ("u", 0, 1), ("u", 3, 2))
    aware = datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert source("t", start=aware).start_ms == 2_000


def test_columns_and_their_types() -> None:
    frame = read("t", key="k", timestamp="at", headers="h", partition="p", offset="o", topic="name")
    assert frame.schema == pa.schema(
        [
            ("k", pa.binary()), ("id", pa.int64()), ("text", pa.string()), ("name", pa.string()),
            ("p", pa.int32()), ("o", pa.int64()), ("at", pa.timestamp("ms", "UTC")),
            ("h", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )  # fmt: skip
    assert read("t", format="raw", schema=None).schema == pa.schema([("value", pa.binary())])
    assert read("t", format="text", schema=None).schema == pa.schema([("value", pa.string())])
    keys = read("t", key={"a": "int64", "b": "string"}, key_format="json")
    assert keys.columns == ["a", "b", "id", "text"]
    side = read("t", on_bad="side").side_output("unreadable")
    assert side.schema == BAD_RECORD_SCHEMA


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"offset": "id"}, 'two columns are named "id"; write: offset="id_2"'),
        ({"key": "text"}, 'two columns are named "text"; write: key="text_2"'),
        ({"pattern": "x"}, "topics or a pattern, got both"),
        ({"topics": ()}, "topics or a pattern, got neither"),
        ({"topics": "a b"}, "'a b' is not a valid topic name"),
        ({"topics": ["a", "a"]}, "a topic is given twice: a, a"),
        ({"topics": (), "pattern": "("}, "is not a valid regular expression"),
        ({"servers": "a b"}, "servers must be host:port"),
        (
            {"schema": None},
            "the columns of json records are unknown without a schema; write: schema=",
        ),
        ({"format": "jsn"}, "format='jsn' is not valid"),
        ({"format": "raw"}, "format raw has one column, got 2: id, text"),
        ({"format": "csv", "registry": "http://r:1"}, "a schema registry supports json, avro"),
        ({"registry": "r:1"}, "registry must be a URL"),
        ({"key_format": "text"}, "key_format= needs a column for the key"),
        ({"key": "k", "key_format": "json"}, 'needs columns with types; write: key={"k": "int64"}'),
        ({"key": {"k": "int64"}}, "the format of the key is not given"),
        ({"start": "2024-01-31"}, r"write: start=datetime.datetime\(2024, 1, 31"),
        ({"start": {"u": 5}}, "start= names topic 'u', which is not read"),
        ({"start": {"t": {0: -1}}}, "not a whole number of at least 0"),
        ({"until": "later"}, "until='later' is not valid"),
        ({"on_bad": "drop"}, "on_bad='drop' is not valid"),
        ({"on_expired": "skip"}, "on_expired='skip' is not valid"),
        ({"discover": 5}, 'discover is a length of time, got 5; write: discover="5 seconds"'),
        ({"rows_per_s": -1}, "rows_per_s=-1"),
        ({"buffer_bytes": 5}, "buffer_bytes=5"),
        ({"settings": {"group.id": "x"}}, "use group="),
        ({"group_id": "x"}, "^read_kafka has no option 'group_id'; did you mean 'group'"),
        ({"format": "avro", "schema": None}, r"write: format=formats.avro\(schema\), or registry"),
        (
            {"settings": {"sasl.password": object()}},
            "'sasl.password' must be a string, number or bool",
        ),
    ],
)
def test_what_means_nothing_is_refused_at_the_call(options: dict[str, Any], text: str) -> None:
    given = {"servers": "h:1", "schema": SCHEMA, "topics": "t", **options}
    with pytest.raises(PlanError, match=text):
        fabric.read_kafka(**given)


def test_a_secret_is_nowhere() -> None:
    frame = read(
        "t", settings={"sasl.password": SECRET, "ssl.key.pem": SECRET},
        format=formats.json(
            registry="http://r:1", registry_settings={"basic.auth.user.info": f"u:{SECRET}"}
        ),
    )  # fmt: skip
    texts = [tree(frame.plan.root), svg(frame.plan.root), repr(frame), repr(frame.plan)]
    assert not [text for text in texts if SECRET in text]


def test_formats_that_mean_nothing() -> None:
    with pytest.raises(PlanError, match="subject= needs a schema registry"):
        formats.avro("{}", subject="x")
    with pytest.raises(PlanError, match="strategy='x' is not valid"):
        formats.avro(registry="http://r:1", strategy="x")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"write: schema=Path\(.*\).read_text\(\)"):
        formats.avro(Path("x.avsc"))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="contains a user or password"):
        formats.avro(registry="http://a:b@r:1")
