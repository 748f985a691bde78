"""A Protobuf message and its columns, as tables for the native decoder and encoder.

One job: `protobuf_program`. A field maps to the column with its name, whatever its number. When
reading, a column that the message does not have is null; a column may be wider than its field, an
enum also int32 (its number), a Timestamp in any unit: a row with a more precise value is bad. When
writing, every column needs a field; a value that does not fit its field is an error that names the
row and the column; a field without a column is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from fabric.errors import PlanError
from fabric.io.codecs.avro_nodes import is_binary, is_list, is_text, numbered, width
from fabric.io.codecs.protobuf_arrow import (
    DURATION,
    MESSAGES,
    PLAIN,
    TIMESTAMP,
    WRAPPERS,
    entry_of,
    is_map,
)

F = FieldDescriptor
SIGNED = {F.TYPE_INT32: 32, F.TYPE_SINT32: 32, F.TYPE_SFIXED32: 32}
SIGNED |= {F.TYPE_INT64: 64, F.TYPE_SINT64: 64, F.TYPE_SFIXED64: 64}
UNSIGNED = {F.TYPE_UINT32: 32, F.TYPE_FIXED32: 32, F.TYPE_UINT64: 64, F.TYPE_FIXED64: 64}
ONEOFS_MAX = 64


class Shape(IntEnum):
    """What a field is beyond its type (the same in protobuf.hpp)."""

    PLAIN = 0
    MAP = 1
    TIMESTAMP = 2
    DURATION = 3
    WRAPPER = 4


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table; numbers of columns, messages and enums, -1 for none."""

    number: int
    type: int
    shape: int = Shape.PLAIN
    is_repeated: bool = False
    has_presence: bool = False
    is_required: bool = False
    is_packed: bool = False
    column: int = -1
    message: int = -1
    enum: int = -1
    oneof: int = -1


@dataclass(frozen=True, slots=True)
class Program:
    """Messages as (fields, columns that are null in each), the row's first; enums by number."""

    messages: tuple[tuple[tuple[Field, ...], tuple[int, ...]], ...]
    enums: tuple[tuple[bool, tuple[tuple[str, int], ...]], ...]


def protobuf_program(message: Descriptor, columns: pa.Schema, *, writes: bool = False) -> Program:
    """The tables that read messages into rows of `columns`, or with `writes` encode the rows.

    Raises
    ------
    PlanError
        If a column and its field are incompatible, or a column to write has no field; the message
        names the path.
    Examples
    --------
    >>> from google.protobuf.duration_pb2 import Duration
    >>> program = protobuf_program(Duration.DESCRIPTOR, pa.schema([("seconds", pa.int64())]))
    >>> [(one.number, one.column) for one in program.messages[0][0]]
    [(1, 0)]
    """
    made = _Compiler(writes)
    made.message(message, list(columns), 0)
    return Program(tuple(made.messages), tuple(made.enums))


@dataclass(slots=True)
class _Compiler:
    writes: bool
    messages: list[tuple[tuple[Field, ...], tuple[int, ...]]] = field(default_factory=list)
    enums: list[tuple[bool, tuple[tuple[str, int], ...]]] = field(default_factory=list)

    def message(self, message: Descriptor, columns: list[pa.Field], first: int) -> int:
        """The number of a table: of a message that is read into columns from `first` on."""
        place = len(self.messages)
        self.messages.append(((), ()))
        fields, absent = [], []
        names = message.fields_by_name
        for one, column in zip(columns, numbered(columns, first), strict=True):
            if (found := names.get(one.name)) is not None:
                fields.append(self.field(found, one.type, column))
            elif self.writes:
                raise PlanError(
                    f"column {one.name!r} is not a field of Protobuf message {message.full_name}"
                )
            else:
                absent.append(column)
        # A member of a oneof without a column still clears a member that has one.
        read = {one.number for one in fields}
        oneofs = {one.oneof for one in fields} - {-1}
        for other in message.fields:
            if other.number not in read and _oneof(other) in oneofs and not self.writes:
                fields.append(Field(other.number, other.type, oneof=_oneof(other)))
        if self.writes:
            self.check_written(message, {one.number for one in fields})
            fields.sort(key=lambda one: one.number)
        self.messages[place] = (tuple(fields), tuple(absent))
        return place

    def check_written(self, message: Descriptor, numbers: set[int]) -> None:
        for one in message.fields:
            if one.is_required and one.number not in numbers:
                raise PlanError(f"required Protobuf field {one.full_name} has no column")
        if len(message.oneofs) > ONEOFS_MAX:
            raise PlanError(
                f"Protobuf message {message.full_name} has more than {ONEOFS_MAX} oneofs"
            )

    def field(self, one: FieldDescriptor, arrow: pa.DataType, column: int) -> Field:
        """A field and the column that it goes to."""
        whole, inner, place = arrow, arrow, column
        shape, message, enum = Shape.PLAIN, -1, -1
        if is_map(one):
            if not pa.types.is_map(arrow):
                raise _refused(one, whole)
            shape, message = Shape.MAP, self.entry(one, arrow, column)
        else:
            if one.is_repeated:
                if not is_list(arrow):
                    raise _refused(one, whole)
                inner, place = arrow.value_type, column + 1
            shape, message = self.inside(one, inner, place)
            if shape is Shape.PLAIN and one.type not in MESSAGES and not self.fits(one, inner):
                raise _refused(one, whole)
        if one.enum_type is not None:
            enum = self.enum(one.enum_type)
        return Field(
            one.number, one.type, shape, one.is_repeated, one.has_presence, one.is_required,
            one.is_packed, column, message, enum, _oneof(one),
        )  # fmt: skip

    def inside(self, one: FieldDescriptor, arrow: pa.DataType, column: int) -> tuple[Shape, int]:
        """Shape and table of a message; of anything else it has none."""
        message = one.message_type
        if message is None:
            return Shape.PLAIN, -1
        if message.full_name in (TIMESTAMP, DURATION):
            t, is_time = pa.types, message.full_name == TIMESTAMP
            if not (t.is_timestamp(arrow) and arrow.tz if is_time else t.is_duration(arrow)):
                raise _refused(one, arrow)
            # The table is not asked; but a message has one.
            return Shape.TIMESTAMP if is_time else Shape.DURATION, 0
        if message.full_name in WRAPPERS:
            value = self.field(message.fields_by_name["value"], arrow, column)
            self.messages.append(((value,), ()))
            return Shape.WRAPPER, len(self.messages) - 1
        if not pa.types.is_struct(arrow):
            raise _refused(one, arrow)
        return Shape.PLAIN, self.message(message, list(arrow), column + 1)

    def entry(self, one: FieldDescriptor, arrow: pa.DataType, column: int) -> int:
        """The table of a map's entry: what is absent in it is a zero, not null."""
        key, value = entry_of(one)
        place = len(self.messages)
        self.messages.append(((), ()))
        made = (
            self.field(key, arrow.key_type, column + 2),
            self.field(value, arrow.item_type, column + 2 + width(arrow.key_type)),
        )
        zeros = tuple(
            Field(f.number, f.type, f.shape, column=f.column, message=f.message, enum=f.enum)
            for f in made
        )
        self.messages[place] = (zeros, ())
        return place

    def enum(self, found: EnumDescriptor) -> int:
        self.enums.append((found.is_closed, tuple((one.name, one.number) for one in found.values)))
        return len(self.enums) - 1

    def fits(self, one: FieldDescriptor, arrow: pa.DataType) -> bool:
        """Whether values of the field may be values of the column, or the other way round."""
        t = pa.types
        if one.type in (F.TYPE_STRING, F.TYPE_BYTES):
            is_same = is_text(arrow) if one.type == F.TYPE_STRING else is_binary(arrow)
            is_other = is_binary(arrow) if one.type == F.TYPE_STRING else is_text(arrow)
            # Any text is bytes; that bytes are a text is checked when they are read.
            return is_same or (is_other and (self.writes == (one.type == F.TYPE_BYTES)))
        if one.type == F.TYPE_ENUM:
            return is_text(arrow) or t.is_int32(arrow)
        if one.type in SIGNED or one.type in UNSIGNED:
            return t.is_integer(arrow) and self.holds(one, arrow)
        if one.type == F.TYPE_FLOAT and not self.writes and t.is_float64(arrow):
            return True
        if one.type == F.TYPE_DOUBLE and self.writes and t.is_float32(arrow):
            return True
        return bool(PLAIN[one.type] == arrow)

    def holds(self, one: FieldDescriptor, arrow: pa.DataType) -> bool:
        """Whether a number's type is not narrower; small columns of small numbers are checked."""
        bits = SIGNED.get(one.type) or UNSIGNED[one.type]
        return bool(arrow.bit_width <= bits if self.writes else arrow.bit_width >= bits) or (
            bits == 32 and arrow.bit_width < 32
        )


def _oneof(one: FieldDescriptor) -> int:
    """The number of the field's oneof; `optional` is none."""
    found = one.containing_oneof
    if found is None or (len(found.fields) == 1 and found.name.startswith("_")):
        return -1
    return int(found.index)


def _refused(one: FieldDescriptor, arrow: pa.DataType) -> PlanError:
    kind = one.message_type or one.enum_type
    name = kind.full_name if kind is not None else KIND.get(one.type, "message")
    many = "repeated " if one.is_repeated else ""
    return PlanError(
        f"Protobuf {one.full_name} is {many}{name}, which does not fit a column of {arrow}"
    )


KIND = {
    getattr(F, name): name.removeprefix("TYPE_").lower()
    for name in dir(F)
    if name.startswith("TYPE_")
}
