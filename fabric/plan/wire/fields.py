"""Nodes, sources and targets as protobuf and back, field by field.

Each of them has its message in `plan.proto`, with the names of its fields (a `dtype` is called
`type` there); `Node.WIRE` and `Place.WIRE` say where that message lies. How a field is written
follows from its type. Expressions, types and schemas of a node are indices into the tables of the
plan. Choices and numbers are checked on the way in: what no writer writes is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from functools import cache, reduce
from operator import or_
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import pyarrow as pa
from google.protobuf.message import Message

from fabric.plan import plan_pb2 as pb
from fabric.plan.event_windows import (
    Count,
    Cumulative,
    Global,
    LateResults,
    Session,
    Sliding,
    Trigger,
    Tumbling,
    Window,
)
from fabric.plan.expr import Expr, SortKey, Udf
from fabric.plan.node import Node
from fabric.plan.nodes.exchange import Compression
from fabric.plan.nodes.keyed_process import SideSchemas, StateField, StateKind
from fabric.plan.places import Options, Place, RowFormat, Settings
from fabric.plan.sources import (
    EMPTY_SCHEMA,
    SOURCES,
    STREAM_SOURCES,
    KafkaPart,
    Offsets,
    RecordColumns,
    Source,
    StreamSource,
)
from fabric.plan.targets import TARGETS, Target
from fabric.plan.wire.tables import WireReader, WireWriter, choice, small
from fabric.plan.wire.values import (
    read_options,
    read_settings,
    schema_from_bytes,
    schema_to_bytes,
    write_options,
    write_settings,
)

T = TypeVar("T")
_INPUTS = (Node, Node | None, tuple[Node, ...])
"""Types of fields that are inputs: a message has them beside the node, not in it."""


def write_node(node: Node, message: pb.Node, to: WireWriter) -> None:
    """Put the fields of `node` but its path and inputs into `message`."""
    part, forms = getattr(message, node.WIRE), _forms(type(node))
    if isinstance(part, Message):
        write_record(node, part, to)
        return
    ((name, form),) = forms.items()  # the only one, without a message around it
    setattr(message, node.WIRE, form.write(getattr(node, name), to))


def read_node(
    kind: type[Node], message: pb.Node, inputs: Sequence[Node], tables: WireReader
) -> Node:
    """The node of class `kind` in `message`, over `inputs`; raises `ValueError`."""
    part, forms = getattr(message, kind.WIRE), _forms(kind)
    if isinstance(part, Message):
        values = _read_fields(kind, part, tables)
    else:
        values = {name: form.read(part, tables) for name, form in forms.items()}
    rest = iter(inputs)
    for name, hint in _hints(kind).items():
        if hint in _INPUTS:
            values[name] = tuple(rest) if get_origin(hint) is tuple else next(rest, None)
    return kind(**values, path=message.path)


def write_place(place: Place, message: Any, to: WireWriter | None = None) -> Any:
    """A source or target in `message`, which has a field for each kind; returns the message."""
    write_record(place, getattr(message, place.WIRE), to)
    return message


def read_place(message: Any, kinds: tuple[type[Place], ...], missing: str) -> Place:
    """The source or target in `message`, one of `kinds`; `missing` says that there is none."""
    name = message.WhichOneof("kind")
    kind = next((kind for kind in kinds if name == kind.WIRE), None)
    if kind is None:
        raise ValueError(missing)
    return read_record(kind, getattr(message, name), None)


def write_record(value: object, message: Any, to: WireWriter | None) -> Any:
    """The fields of a frozen record in `message`, which is returned."""
    message.SetInParent()  # also where it has no field
    for name, form in _forms(cast(Hashable, type(value))).items():
        written, (part, field) = form.write(getattr(value, name), to), _place_of(name, message)
        if isinstance(written, list | tuple):
            getattr(part, field).extend(written)
        elif isinstance(written, Message):
            getattr(part, field).CopyFrom(written)
        elif written is not None:
            setattr(part, field, written)
    return message


def read_record(kind: type[T], message: Any, tables: WireReader | None) -> T:
    """The record of class `kind` in `message`; raises `ValueError`."""
    return kind(**_read_fields(kind, message, tables))


def _read_fields(kind: type, message: Any, tables: WireReader | None) -> dict[str, Any]:
    found = {}
    for name, form in _forms(kind).items():
        part, field = _place_of(name, message)
        is_there = not form.optional or part.HasField(field)
        found[name] = form.read(getattr(part, field), tables) if is_there else None
    return found


def _place_of(name: str, message: Any) -> tuple[Any, str]:
    """Where field `name` lies: what all steps have that keep groups is in a message of its own."""
    field = name.replace("dtype", "type")
    return (message if hasattr(message, field) else message.waiting), field


class _Form(NamedTuple):
    """How the values of one type are written and read; `optional`: None is not written."""

    write: Callable[[Any, Any], Any]
    read: Callable[[Any, Any], Any]
    optional: bool = False


def _form(write: Callable[[Any], Any] | None, read: Callable[[Any], Any] | None = None) -> _Form:
    """The form of what lies in no table of the plan; without a function values are as they are."""
    return _Form(
        lambda value, _: value if write is None else write(value),
        lambda value, _: value if read is None else read(value),
    )


def _place_form(message: Callable[[], Any], kinds: tuple[type[Place], ...], missing: str) -> _Form:
    return _form(
        lambda place: write_place(place, message()), lambda part: read_place(part, kinds, missing)
    )


def _record_form(kind: type, message: Callable[[], Any]) -> _Form:
    return _Form(
        lambda value, to: write_record(value, message(), to),
        lambda part, tables: read_record(kind, part, tables),
    )


def _choice_form(hint: Any, what: str) -> _Form:
    assert all(isinstance(each, str) for each in get_args(hint))
    return _form(None, lambda value: choice(value, hint, what))


def _read_columns(messages: Any) -> RecordColumns:
    return tuple((choice(each.name, KafkaPart, "columns"), each.value) for each in messages)


def _write_offsets(offsets: Offsets) -> list[pb.KafkaOffset]:
    return [pb.KafkaOffset(topic=t, partition=p, offset=o) for t, p, o in offsets]


def _read_offsets(messages: Any) -> Offsets:
    return tuple((each.topic, each.partition, small(each.offset)) for each in messages)


_WindowKind = Literal["tumbling", "sliding", "session", "cumulative", "count", "global"]
_WINDOWS: dict[str, tuple[type[Window], dict[str, str]]] = {
    "tumbling": (Tumbling, {"size": "size_us", "offset_us": "offset_us"}),
    "sliding": (Sliding, {"size": "size_us", "step_us": "slide_us", "offset_us": "offset_us"}),
    "session": (Session, {"size": "gap_us"}),
    "cumulative": (Cumulative, {"size": "size_us", "step_us": "step_us", "offset_us": "offset_us"}),
    "count": (Count, {"size": "n_rows"}),
    "global": (Global, {}),
}
"""Windows by kind, and their fields by those of the message that all have in common."""


def _write_window(window: Window) -> pb.EventWindow:
    kind = next(kind for kind, (made, _) in _WINDOWS.items() if made is type(window))
    values = {name: getattr(window, own) for name, own in _WINDOWS[kind][1].items()}
    return pb.EventWindow(kind=kind, **values)


def _read_window(message: pb.EventWindow) -> Window:
    made, names = _WINDOWS[choice(message.kind, _WindowKind, "window")]
    values = {own: getattr(message, name) for name, own in names.items()}
    return made(**(values if made is not Count else {"n_rows": small(message.size)}))


def _read_assigned(message: pb.EventWindow) -> Tumbling | Sliding | Cumulative:
    window = _read_window(message)
    if not isinstance(window, Tumbling | Sliding | Cumulative):
        raise ValueError(f"a {type(window).__name__} window can't be assigned row by row")
    return window


def _write_sides(sides: SideSchemas, to: WireWriter) -> list[pb.Side]:
    return [pb.Side(tag=tag, schema=to.schema(schema)) for tag, schema in sides]


_FORMS: tuple[tuple[Any, _Form], ...] = (
    (int, _form(None, small)),
    (tuple[str, ...], _form(None, tuple)),
    (tuple[str, ...] | None, _form(
        lambda names: None if names is None else pb.Names(names=names),
        lambda message: tuple(message.names),
    )._replace(optional=True)),
    (Expr, _Form(lambda expr, to: to.expr(expr), lambda index, tables: tables.expr(index))),
    (Udf, _Form(lambda udf, to: to.expr(udf), lambda index, tables: tables.udf(index))),
    (SortKey, _record_form(SortKey, pb.SortKey)),
    (pa.DataType, _Form(
        lambda dtype, to: to.dtype(dtype), lambda index, tables: tables.dtype(index)
    )),
    (Compression, _form(
        lambda value: "" if value == "none" else value,
        lambda value: choice(value or "none", Compression, "compression"),
    )),
    (Compression | None, _choice_form(Compression, "compression")._replace(optional=True)),
    (StateKind, _choice_form(StateKind, "state")),
    (StateField, _record_form(StateField, pb.StateField)),
    (SideSchemas, _Form(_write_sides, lambda sides, tables: tuple(
        (side.tag, tables.schema(side.schema)) for side in sides
    ))),
    (Window, _form(_write_window, _read_window)),
    (Tumbling | Sliding | Cumulative, _form(_write_window, _read_assigned)),
    (LateResults, _choice_form(LateResults, "late results")),
    (Trigger, _record_form(Trigger, pb.Trigger)),
    (Options, _form(write_options, read_options)),
    (Settings, _form(write_settings, read_settings)),
    (RecordColumns, _form(write_settings, _read_columns)),
    (Offsets, _form(_write_offsets, _read_offsets)),
    (Source, _place_form(pb.Source, SOURCES, "a scan without a source")),
    (StreamSource, _place_form(pb.StreamSource, STREAM_SOURCES, "a stream without a source")),
    (Target, _place_form(pb.Target, TARGETS, "a sink without a target")),
    (RowFormat, _record_form(RowFormat, pb.RowFormat)),
)  # fmt: skip
"""By the type of a field; others are written as they are."""
_SCHEMA_OF_NODE = _Form(
    lambda schema, to: to.schema(schema), lambda index, tables: tables.schema(index)
)
_SCHEMA_OF_PLACE = _form(
    lambda schema: schema_to_bytes(schema) if len(schema) else b"",
    lambda data: schema_from_bytes(data) if data else EMPTY_SCHEMA,
)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _forms(kind: Any) -> dict[str, _Form]:
    """The form of each field of a dataclass; of a node's but its path and inputs."""
    is_node = issubclass(kind, Node)
    schema = _SCHEMA_OF_NODE if is_node else _SCHEMA_OF_PLACE
    return {
        name: schema if hint is pa.Schema else _form_of(name, hint)
        for name, hint in _hints(kind).items()
        if not (is_node and (hint in _INPUTS or name == "path"))
    }


def _form_of(name: str, hint: Any) -> _Form:
    found = next((form for known, form in _FORMS if known == hint), None)
    if found is not None:
        return found
    if get_origin(hint) is Literal:
        return _choice_form(hint, name)
    if NoneType in get_args(hint):
        inner = _form_of(
            name, reduce(or_, (each for each in get_args(hint) if each is not NoneType))
        )
        return _Form(
            lambda value, to: None if value is None else inner.write(value, to), inner.read, True
        )
    if get_origin(hint) is tuple:
        each = _form_of(name, get_args(hint)[0])
        return _Form(
            lambda values, to: [each.write(value, to) for value in values],
            lambda parts, tables: tuple(each.read(part, tables) for part in parts),
        )
    assert hint in (str, bytes, bool, float), (name, hint)
    return _form(None)
