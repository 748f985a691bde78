"""What sources and targets have in common: `Place`, how it is written as text, and row formats.

A place is a frozen description of where a scan reads or a sink writes, without I/O. Places are
classes in `sources.py` and `targets.py`. A class says all that a plan knows of it: its fields, the
largest numbers that they may hold, and its text. The form on the wire follows from its fields
(`wire/fields.py`). Reading and writing is `fabric/io`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa

from fabric.plan.faults import quoted

FileFormat = Literal["parquet", "csv", "ipc", "json"]
OptionValue: TypeAlias = str | bool | int | tuple[str, ...] | pa.Schema
"""A reader's or writer's option, in its own type."""
Options: TypeAlias = tuple[tuple[str, OptionValue], ...]
"""Sorted by name, e.g. (("delimiter", ";"), ("header", False))."""
Settings: TypeAlias = tuple[tuple[str, str], ...]
"""A client library's own settings, sorted by name, e.g. (("socket.keepalive.enable", "true"),)."""
RowFormatName = Literal["json", "avro", "protobuf", "csv", "text", "raw", "ipc"]
SubjectStrategy = Literal["topic", "record", "topic_record"]


class Place(ABC):
    """Where a scan reads or a sink writes."""

    __slots__ = ()

    WIRE: ClassVar[str]
    """Its field of ``kind`` in `plan.proto`: of ``Source``, ``StreamSource`` or ``Target``."""
    BOUNDS: ClassVar[Mapping[str, float]] = {}
    """The most that fields may hold, by name."""

    @abstractmethod
    def text(self) -> str:
        """The call that reads or writes it, as a user would write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace(Place):
    """Files of a folder or a store; `settings` of the store come before those of the environment,
    secret ones are only in `secrets`."""

    settings: Settings = ()
    secrets: Settings = field(default=(), repr=False)

    @property
    def store(self) -> Settings:
        """All that the store is opened with, for those who open it."""
        return tuple(sorted(self.settings + self.secrets))


class StreamPlace(Place):
    """A source of a stream."""

    __slots__ = ()

    FINDS_SPLITS: ClassVar[bool] = False
    """Whether splits may come while it is read."""
    MAY_CHANGE: ClassVar[tuple[str, ...]] = ()
    """The settings with which a later program may differ and still go on from its positions."""

    @property
    def is_open(self) -> bool:
        """Whether it has no end of its own."""
        return True

    def side_schemas(self) -> Mapping[str, pa.Schema]:
        """What can't be read, if that goes aside, by tag."""
        return {}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How one row, or its key, is written as bytes.

    `schema_text` is the schema in the format's own language (Avro's JSON, a .proto file, JSON
    Schema) where there is one; `message` names the message of a .proto file. With a `registry`, a
    URL, each value begins with the id of its writer's schema; new schemas are registered under
    `subject`, or by `strategy` when that is empty. `registry_secrets` are the registry's user,
    password, token or PEMs.
    """

    name: RowFormatName
    options: Options = ()
    schema_text: str = ""
    message: str = ""
    registry: str = ""
    subject: str = ""
    strategy: SubjectStrategy = "topic"
    registry_settings: Settings = ()
    registry_secrets: Settings = field(default=(), repr=False)

    def text(self) -> str:
        """The format as it is given: by its name alone, else with what it has of its own."""
        rest = given(self, leave=("name", "options", "registry_settings"))
        return f"formats.{self.name}({rest})" if rest else quoted(self.name)


JSON, RAW = RowFormat("json"), RowFormat("raw")


def given(place: Place | RowFormat, *bare: str, leave: tuple[str, ...] = ()) -> str:
    """Arguments: those of `bare` names without them, others where they are not the default.

    What has no `repr` is secret. A client library's settings are no argument that says where.
    """
    texts = {name: argument(getattr(place, name)) for name in bare}
    for each in fields(place):  # type: ignore[arg-type]  # every place is a dataclass
        value = getattr(place, each.name)
        if not each.repr or each.name == "settings":
            continue
        if each.name not in (*bare, *leave) and value != each.default:
            texts[each.name] = f"{each.name}={argument(value)}"
    return ", ".join(texts.values())


def argument(value: object) -> str:
    """A value of a field, as an argument."""
    if isinstance(value, RowFormat):
        return value.text()
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        names = ", ".join(map(quoted, value))
        return names if len(value) == 1 else f"[{names}]"
    return quoted(value) if isinstance(value, str) else repr(value)
