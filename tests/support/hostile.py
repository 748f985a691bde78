"""Messages as an attacker with a token would send them, from a seed.

One job: `Hostile`, which draws messages of protobuf descriptors in which each field is as likely as
any other (bytes that are flipped rarely get past the first field), changes single fields of good
ones, and damages bytes. What a good message would hold (the id of a job, of an agent) is mixed in
by the names of fields, so that what is drawn gets behind the first look-up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Known = Mapping[str, Sequence[Any]]
"""Values of good messages by the name of their field."""

WHOLE = (0, 1, 2, 3, 7, 100, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**64 - 1)
BROKEN = (0.0, -0.0, 0.5, -1.0, 1e-300, 1e18, 1.7e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "a", "x" * 257, "x" * 70_000, "../outside", "a\0b", "a\nb", "\x1b[2J", "💥" * 40,
    "<script>alert(1)</script>", "%s%n", "'; DROP TABLE jobs; --", "nan",
    "\u202egnp", "job-0", "main",
)  # fmt: skip
BYTES = (b"", b"\0", b"\xff" * 16, b"{}", b"fabric-ack 1 2 00000000\n{}", b"x" * 70_000)
PLACE = ("job_id", "stage", "task", "attempt", "epoch")
_SIGNED = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
_UNSIGNED = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}
DEPTH = 5
"""How deep messages nest, but for those of `nested`."""
NESTED = 90
"""Deeper than anybody would; protobuf itself reads a hundred."""


class Hostile:
    """Draws from `seed`; half of the fields that `known` has values for get one of them."""

    def __init__(self, seed: str, known: Known | None = None) -> None:
        self.chance = random.Random(seed)
        self.known: Known = known or {}

    def often(self, share: float) -> bool:
        """True in that share of calls."""
        return self.chance.random() < share

    def drawn(self, kind: Descriptor, depth: int = 0) -> Message:
        """A message of which each field, and each kind of a oneof, is set as often as not."""
        message: Message = GetMessageClass(kind)()
        choices: list[Sequence[Any]] = [
            [field] for field in kind.fields if field.containing_oneof is None
        ]
        choices += [oneof.fields for oneof in kind.oneofs]
        for choice in choices:
            must = len(choices) == 1 or choice[0].containing_oneof is not None
            if must or self.chance.random() < 0.5:
                self._fill(message, self.chance.choice(choice), depth)
        return message

    def changed(self, good: Message) -> Message:
        """`good` with one field, at any depth, drawn anew."""
        message = type(good)()
        message.CopyFrom(good)
        inner = message
        for _ in range(self.chance.randrange(DEPTH)):
            below = [
                one
                for field, value in inner.ListFields()
                if field.message_type is not None and not _is_map(field)
                for one in ([value] if not field.is_repeated else value)
            ]
            if not below:
                break
            inner = self.chance.choice(below)
        here: list[Any] = list(inner.DESCRIPTOR.fields)
        if here:
            field = self.chance.choice(here)
            inner.ClearField(field.name)
            self._fill(inner, field, 1)
        return message

    def nested(self, kind: Descriptor) -> Message:
        """A message in a message in a message, as deep as protobuf reads, where `kind` may."""
        message: Message = GetMessageClass(kind)()
        inner = message
        for _ in range(NESTED):
            fields: list[Any] = list(inner.DESCRIPTOR.fields)
            deeper = [f for f in fields if f.message_type and not _is_map(f)]
            again = [f for f in deeper if f.message_type.fields_by_name and _recurs(f.message_type)]
            if not again:
                break
            field = self.chance.choice(again)
            value = getattr(inner, field.name)
            inner = value.add() if field.is_repeated else value
            inner.SetInParent()
        return message

    def damaged(self, data: bytes) -> bytes:
        """Bytes flipped, cut off, doubled, put in."""
        out = bytearray(data or b"\0")
        for _ in range(self.chance.randint(1, 4)):
            at = self.chance.randrange(len(out) + 1)
            match self.chance.randrange(5):
                case 0:
                    out[at:] = b""
                case 1:
                    out[at:at] = self.chance.randbytes(self.chance.randint(1, 20))
                case 2:
                    out[at:at] = out[max(0, at - 20) : at]
                case _ if at < len(out):
                    out[at] = self.chance.choice(
                        (0, 1, 0x7F, 0x80, 0xFF, self.chance.randrange(256))
                    )
            out = out or bytearray(b"\0")
        return bytes(out)

    def message(self, kind: Descriptor, good: Sequence[Message] = ()) -> bytes:
        """The bytes of a message to send: drawn, changed, nested or damaged."""
        how = self.chance.random()
        if good and how < 0.5:
            data = self.changed(self.chance.choice(good)).SerializeToString()
        elif how < 0.95:
            data = self.drawn(kind).SerializeToString()
        else:
            data = self.nested(kind).SerializeToString()
        return self.damaged(data) if self.chance.random() < 0.2 else data

    def json(self, good: Sequence[Mapping[str, object]]) -> bytes:
        """A JSON body like one of `good`, with other values, or damaged."""
        fields = dict(self.chance.choice(good)) if good else {}
        for name in [*fields, *self.chance.sample(["extra", "name", "schema", "parts"], 1)]:
            if self.chance.random() < 0.4:
                fields[name] = self._json(name, 0)
        if self.chance.random() < 0.05:
            return b"[" * self.chance.choice((10, 1000, 100_000))
        data = json.dumps(fields).encode()
        return self.damaged(data) if self.chance.random() < 0.2 else data

    def inner(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Some of `fields` with other values in them, at any depth."""
        return {name: self._other(name, fields[name]) for name in fields if self.often(0.3)}

    def _other(self, name: str, value: object) -> object:
        if isinstance(value, list) and value and self.often(0.7):
            at = self.chance.randrange(len(value))
            return [self._other(name, each) if n == at else each for n, each in enumerate(value)]
        if isinstance(value, dict) and self.often(0.8):
            return {**value, **self.inner(value)}
        return self._json(name, 0)

    def place(self, message: Message) -> None:
        """Have a message be about something that is there, more often than not."""
        for field in message.DESCRIPTOR.fields:
            if field.name == "key" and field.message_type is not None and self.often(0.8):
                self.place(getattr(message, field.name))
            elif field.name in PLACE and field.name in self.known and self.often(0.95):
                setattr(message, field.name, self.chance.choice(self.known[field.name]))

    def _json(self, name: str, depth: int) -> object:
        if name in self.known and self.chance.random() < 0.5:
            return self.chance.choice(self.known[name])
        makers: list[Callable[[], object]] = [
            lambda: self.chance.choice(TEXTS), lambda: self.chance.choice(WHOLE),
            lambda: -self.chance.choice(WHOLE), lambda: self.chance.choice(BROKEN),
            lambda: None, lambda: True,
        ]  # fmt: skip
        if depth < 3:
            names = ("writer", "attempt", "rows", "k")
            makers += [
                lambda: [self._json(name, depth + 1) for _ in range(self.chance.randrange(4))],
                lambda: {n: self._json(n, depth + 1) for n in names},
            ]
        return self.chance.choice(makers)()

    # ---- inside

    def _fill(self, message: Message, field: Any, depth: int) -> None:
        if field.message_type is not None and depth >= DEPTH:
            return
        n = self.chance.choice((1, 1, 2, 3)) if depth else self.chance.choice((1, 2, 3, 40))
        if _is_map(field):
            key, value = field.message_type.fields
            held: Any = getattr(message, field.name)
            for _ in range(n):
                if value.message_type is not None:
                    held[self._scalar(key)].CopyFrom(self.drawn(value.message_type, depth + 1))
                else:
                    held[self._scalar(key)] = self._scalar(value)
        elif field.message_type is not None:
            for _ in range(n if field.is_repeated else 1):
                inner = self.drawn(field.message_type, depth + 1)
                if field.is_repeated:
                    getattr(message, field.name).add().CopyFrom(inner)
                else:
                    getattr(message, field.name).CopyFrom(inner)
        elif field.is_repeated:
            getattr(message, field.name).extend(self._scalar(field) for _ in range(n))
        else:
            setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        known = [each for each in self.known.get(field.name, ()) if _fits(field, each)]
        if known and self.often(0.5):
            return self.chance.choice(known)
        kind = field.cpp_type
        if kind in _SIGNED:
            end = 1 << (_SIGNED[kind] - 1)
            return self.chance.choice((self.chance.choice(WHOLE), -self.chance.choice(WHOLE))) % end
        if kind in _UNSIGNED:
            return self.chance.choice(WHOLE) % (1 << _UNSIGNED[kind])
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self.chance.choice(BROKEN)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self.chance.random() < 0.5
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            assert field.enum_type is not None
            numbers = [value.number for value in field.enum_type.values]
            return self.chance.choice([*numbers, 99, -1])
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.chance.choice((*BYTES, self.chance.randbytes(30)))
        return self.chance.choice(TEXTS)


def _fits(field: Any, value: object) -> bool:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return isinstance(value, bytes if field.type == FieldDescriptor.TYPE_BYTES else str)
    return isinstance(value, int | float)


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _recurs(kind: Descriptor, seen: frozenset[str] = frozenset(), top: str = "") -> bool:
    """Whether a message of a kind may hold another one of it."""
    top = top or kind.full_name
    if kind.full_name in seen:
        return False
    seen |= {kind.full_name}
    fields: list[Any] = list(kind.fields)
    below = [f.message_type for f in fields if f.message_type is not None]
    return any(k.full_name == top or _recurs(k, seen, top) for k in below)


FLIGHT = {
    "HandshakeRequest": "version uint64 1, payload bytes 2",
    "Criteria": "expression bytes 1",
    "Ticket": "ticket bytes 1",
    "Empty": "",
    "Action": "type string 1, body bytes 2",
    "FlightDescriptor": "kind int32 1, cmd bytes 2, path *string 3",
    "FlightData": (
        "flight_descriptor message 1, data_header bytes 2, app_metadata bytes 3, "
        "data_body bytes 1000"
    ),
}
"""Name, type and number of each field of Flight's messages."""


def flight() -> Mapping[str, Descriptor]:
    """The messages of Flight's protocol, by name: what pyarrow keeps to itself."""
    file = descriptor_pb2.FileDescriptorProto(name="h.proto", package="h", syntax="proto3")
    for name, said in FLIGHT.items():
        made = file.message_type.add(name=name)
        for name_, kind, number in (one.split() for one in said.split(", ") if one):
            field: Any = made.field.add(name=name_, number=int(number))
            field.label = FieldDescriptor.LABEL_OPTIONAL + 2 * kind.startswith("*")
            field.type = getattr(FieldDescriptor, f"TYPE_{kind.removeprefix('*').upper()}")
            if kind == "message":
                field.type_name = ".h.FlightDescriptor"
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: pool.FindMessageTypeByName(f"h.{name}") for name in FLIGHT}
