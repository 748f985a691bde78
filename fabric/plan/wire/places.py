"""Sources and targets as protobuf and back, field by field.

A place has its message in `plan.proto`, with the names of its fields; `Place.WIRE` says where that
message lies. How a field is written follows from its type. Choices and numbers are checked on the
way in: what no writer writes is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from functools import cache
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

import pyarrow as pa

from fabric.plan import plan_pb2 as pb
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
from fabric.plan.wire.tables import choice, small
from fabric.plan.wire.values import (
    read_options,
    read_settings,
    schema_from_bytes,
    schema_to_bytes,
    write_options,
    write_settings,
)


def write_source(source: Source) -> pb.Source:
    """`source` as protobuf."""
    return cast(pb.Source, _write_place(source, pb.Source()))


def read_source(message: pb.Source) -> Source:
    """The source in `message`; raises `ValueError`."""
    return cast(Source, _read_place(message, SOURCES, "a scan without a source"))


def write_stream_source(source: StreamSource) -> pb.StreamSource:
    """`source` as protobuf."""
    return cast(pb.StreamSource, _write_place(source, pb.StreamSource()))


def read_stream_source(message: pb.StreamSource) -> StreamSource:
    """The source in `message`; raises `ValueError`."""
    return cast(StreamSource, _read_place(message, STREAM_SOURCES, "a stream without a source"))


def write_target(target: Target) -> pb.Target:
    """`target` as protobuf."""
    return cast(pb.Target, _write_place(target, pb.Target()))


def read_target(message: pb.Target) -> Target:
    """The target in `message`; raises `ValueError`."""
    return cast(Target, _read_place(message, TARGETS, "a sink without a target"))


def _write_place(place: Place, message: Any) -> Any:
    part = getattr(message, place.WIRE)
    part.SetInParent()  # also where it has no field
    _write_fields(place, part)
    return message


def _read_place(message: Any, kinds: tuple[type[Place], ...], missing: str) -> Place:
    name = message.WhichOneof("kind")
    kind = next((kind for kind in kinds if name == kind.WIRE), None)
    if kind is None:
        raise ValueError(missing)
    return cast(Place, _read_fields(kind, getattr(message, name)))


def _write_fields(value: Any, message: Any) -> Any:
    for name, form in _forms(cast(Hashable, type(value))).items():
        written = form.write(getattr(value, name))
        if isinstance(written, list | tuple):
            getattr(message, name).extend(written)
        elif hasattr(written, "SerializeToString"):
            getattr(message, name).CopyFrom(written)
        else:
            setattr(message, name, written)
    return message


def _read_fields(kind: type, message: Any) -> object:
    return kind(**{name: form.read(getattr(message, name)) for name, form in _forms(kind).items()})


class _Form(NamedTuple):
    """How the values of one type are written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


def _read_columns(messages: Any) -> RecordColumns:
    return tuple((choice(each.name, KafkaPart, "columns"), each.value) for each in messages)


def _write_offsets(offsets: Offsets) -> list[pb.KafkaOffset]:
    return [pb.KafkaOffset(topic=t, partition=p, offset=o) for t, p, o in offsets]


def _read_offsets(messages: Any) -> Offsets:
    return tuple((each.topic, each.partition, small(each.offset)) for each in messages)


_FORMS: tuple[tuple[Any, _Form], ...] = (
    (int, _Form(_as_it_is, small)),
    (tuple[str, ...], _Form(_as_it_is, tuple)),
    (Options, _Form(write_options, read_options)),
    (Settings, _Form(write_settings, read_settings)),
    (RecordColumns, _Form(write_settings, _read_columns)),
    (Offsets, _Form(_write_offsets, _read_offsets)),
    (Source, _Form(write_source, read_source)),
    (RowFormat, _Form(
        lambda value: _write_fields(value, pb.RowFormat()),
        lambda message: _read_fields(RowFormat, message),
    )),
    (pa.Schema, _Form(
        lambda schema: schema_to_bytes(schema) if len(schema) else b"",
        lambda data: schema_from_bytes(data) if data else EMPTY_SCHEMA,
    )),
)  # fmt: skip
"""By the type of a field; others are written as they are."""


@cache
def _forms(kind: Any) -> dict[str, _Form]:
    """The form of each field of a dataclass."""
    hints = get_type_hints(kind)
    return {each.name: _form(each.name, hints[each.name]) for each in fields(kind)}


def _form(name: str, hint: Any) -> _Form:
    if get_origin(hint) is Literal:
        assert all(isinstance(each, str) for each in get_args(hint))
        return _Form(_as_it_is, lambda value: choice(value, hint, name))
    found = next((form for known, form in _FORMS if known == hint), None)
    assert found is not None or hint in (str, bytes, bool, float), (name, hint)
    return found or _Form(_as_it_is, _as_it_is)
