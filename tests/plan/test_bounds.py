"""Every number of a plan that sizes something has a bound; every other one is said to size nothing.

The walk is over `plan.proto`: a new number in it fails here until it is in one of the two. What a
class has as an expression or a schema is an index into the plan's own tables there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from re import findall
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor

from fabric.errors import PlanError
from fabric.plan import places, sources
from fabric.plan import plan_pb2 as pb
from fabric.plan.bounds import BOUNDS, TEXT_CHARS_MAX, check_bounds
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Column, Udf
from fabric.plan.nodes import (
    NODES,
    Deduplicate,
    KeyedProcess,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Sink,
    StateField,
    StreamScan,
    Watermark,
)
from fabric.plan.sources import (
    SOURCES,
    STREAM_SOURCES,
    FlightSource,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    MemorySource,
    ReplayStream,
    StreamSource,
)
from fabric.plan.targets import TARGETS, BlackholeTarget, DatasetTarget, StreamFileTarget, Target

_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT,
}  # fmt: skip
CLASSES = {"Config": "NodeConfig"}
SIZES_NOTHING = {
    # indices into the plan's own tables, looked up
    "Plan.root", "Literal.type", "Call.args", "Case.parts", "Cast.input", "Cast.type",
    "IsIn.input", "Alias.input", "Agg.input", "Agg.args", "Over.input", "Over.partition_by",
    "Udf.args", "Udf.type", "Node.inputs", "Node.filter", "StageInput.edge", "SortKey.input",
    "StateField.type", "StateField.key_type", "Side.schema",
    # compared, printed or set by the planner
    "Plan.version", "Scan.scan_id", "StreamScan.scan_id",
    # values
    "Literal.integer", "Literal.unsigned", "Literal.real",
    # rows to stop after, to look back or to cut at: nothing is made for a row before it comes
    "Scan.limit", "Limit.n", "Limit.offset", "Frame.start", "Frame.end", "FileTarget.rows_max",
    "StreamFileTarget.roll_rows",
    # places in topics
    "KafkaOffset.partition", "KafkaOffset.offset",
}  # fmt: skip
ELSEWHERE = {
    # checked at birth in plan/windowing.py, whatever they come from
    "EventWindow.size", "EventWindow.step_us", "EventWindow.offset_us", "Trigger.early_us",
    "Trigger.count",
    # `BOUNDS` has it for each node that waits
    "Waiting.lateness_us",
    # an option of a reader or writer: in its own ranges (`fabric/io/files/options.py`)
    "Option.integer",
}  # fmt: skip
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
MADE = StreamScan(GeneratorStream(), SCHEMA, path="in")
HUGE = (1 << 31) - 1
KINDS: tuple[Any, ...] = (*NODES, *SOURCES, *STREAM_SOURCES, *TARGETS, StateField)
ALL_BOUNDS = BOUNDS | {
    f"{kind.__name__}.{name}": most for kind in KINDS for name, most in kind.BOUNDS.items()
}


def numbers() -> Iterator[str]:
    for name, message in pb.DESCRIPTOR.message_types_by_name.items():
        for field in message.fields:
            if field.cpp_type in _NUMBERS and not is_index(name, field.name):
                yield f"{name}.{field.name}"


def is_index(message: str, field: str) -> bool:
    """Whether the class of a message has expressions or the like in that field."""
    kind = next((kind for kind in KINDS if kind.__name__ == message), None)
    known = {each.name: str(each.type) for each in fields(kind)} if kind else {}
    return not {"Expr", "Schema", "Udf"}.isdisjoint(findall(r"\w+", known.get(field, "")))


def bounded(name: str) -> bool:
    message, _, field = name.partition(".")
    return f"{CLASSES.get(message, message)}.{field}" in ALL_BOUNDS


def test_every_number_of_a_plan_has_a_bound_or_sizes_nothing() -> None:
    known = SIZES_NOTHING | ELSEWHERE
    assert [name for name in numbers() if not bounded(name) and name not in known] == []
    assert known <= set(numbers()), "a number that there is no more"
    assert not [name for name in known if bounded(name)], "in both"


def test_every_bound_is_of_a_field_there_is() -> None:
    kinds = {kind.__name__: kind for kind in (*KINDS, NodeConfig)}
    for name in ALL_BOUNDS:
        kind, _, field = name.partition(".")
        assert field in kinds[kind].__dataclass_fields__, name


def stream(source: StreamSource) -> Node:
    return Sink(StreamScan(source, SCHEMA, path="in"), BlackholeTarget(), path="out")


def write(target: Target) -> Node:
    return Sink(Scan(MemorySource("t", 1), SCHEMA, path="in"), target, path="out")


def write_stream(target: Target) -> Node:
    return Sink(StreamScan(GeneratorStream(), SCHEMA, path="in"), target, path="out")


PROCESS = KeyedProcess(
    MADE,
    (Column("k"),),
    Udf("f", (), pa.int64(), "object", b"", b""),
    SCHEMA,
)
SPLITS = "n_splits is at most 10000"
REFUSED: list[tuple[Node, str]] = [
    (stream(GeneratorStream(n_splits=HUGE)), SPLITS),
    (stream(sources.NexmarkStream("bid", n_splits=HUGE)), SPLITS),
    (stream(FollowedFiles("csv", "/in", n_splits=HUGE)), SPLITS),
    (stream(sources.FlightStream("in", n_splits=HUGE)), SPLITS),
    (stream(sources.FlightStream("in", buffer_bytes=1 << 60)), "buffer_bytes is at most"),
    (stream(KafkaStream("h:1", ("t",), buffer_bytes=1 << 60)), "buffer_bytes is at most"),
    (stream(KafkaStream("h:1", ("t",), discover_s=float("inf"))), "discover_s must be a number"),
    (stream(KafkaStream("h" * 5000, ("t",))), "servers has at most 4096 characters"),
    (
        stream(KafkaStream("h:1", ("t",), value=places.RowFormat("avro", message="x" * 5000))),
        "message has at most 4096 characters",
    ),
    (
        stream(KafkaStream("h:1", ("t",), value=places.RowFormat("avro", schema_text="x" * 2**21))),
        "schema_text has at most 1048576 characters",
    ),
    (stream(GeneratorStream(rows_per_s=1 << 62)), "rows_per_s is at most"),
    (stream(FollowedFiles("csv", "/in", poll_s=float("nan"))), "poll_s must be a number"),
    (stream(ReplayStream(MemorySource("t", 1), "ts", speed=float("inf"))), "speed must be a"),
    (stream(ReplayStream(FlightSource("x" * 5000), "ts")), "uri has at most 4096 characters"),
    (stream(sources.FlightStream("x" * 5000)), "name has at most 4096 characters"),
    (write(DatasetTarget("d", n_partitions=HUGE)), "n_partitions is at most 4096"),
    (write(DatasetTarget("d", replicas=HUGE)), "replicas is at most 128"),
    (write_stream(StreamFileTarget("csv", "/o", compact_s=1e300)), "compact_s is at most"),
    (
        Watermark(MADE, "ts", bound_us=1 << 62, path="out"),
        "bound_us is at most",
    ),
    (
        Deduplicate(MADE, (Column("k"),), ttl_us=1 << 62, path="out"),
        "ttl_us is at most",
    ),
]


@pytest.mark.parametrize(("root", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_number_beyond_its_bound_is_refused_by_name(root: Node, text: str) -> None:
    with pytest.raises(PlanError, match=text) as caught:
        check(decode(encode(Plan(root))))
    assert caught.value.where.node in ("in", "out")


def test_states_of_a_function_are_looked_at() -> None:
    state = StateField("s", "value", pa.int64(), ttl_us=1 << 62)
    with pytest.raises(PlanError, match="ttl_us is at most"):
        check_bounds(replace(PROCESS, states=(state,)))


@pytest.mark.parametrize(
    "settings",
    [
        NodeConfig(parallelism=HUGE),
        NodeConfig(buffer_batches=HUGE),
        NodeConfig(state_memory=(1 << 50) + 1),
    ],
)
def test_settings_of_a_path_are_bounded(settings: NodeConfig) -> None:
    scan = Scan(MemorySource("t", 1), SCHEMA, path="in")
    with pytest.raises(PlanError, match="must be 1 to"):
        check(Plan(scan, (("in", settings),)))


def test_what_is_at_its_bound_is_taken() -> None:
    check(Plan(stream(GeneratorStream(n_splits=10_000))))
    check(Plan(write(DatasetTarget("d" * TEXT_CHARS_MAX, n_partitions=4096, replicas=128))))
