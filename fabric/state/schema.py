"""The schema of stored states, written down beside them, and how it may change between runs.

One job: `Header`, its JSON and strict reading, names each state in a snapshot or folder with its
types. `conversion` goes from values as they were stored to those of now, or refuses with the name
of the state, the old and the new types. What may change: a nullable field is added to a struct (it
is null in what was stored), fields change their order, and numbers widen: integers to wider ones
that hold all their values, float32 to float64, and integers of at most 32 bits to float64. Keys,
kinds, folds, and whether values age stay as they are.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fabric._cython.kernels.rows import RowCodec
from fabric.errors import StateSchemaError, StorageError
from fabric.state.spec import Kind, StateSpec

FILE = "state.json"
_FORMAT, _VERSION = "fabric state", 1
Convert = Callable[[pa.LargeBinaryArray], pa.LargeBinaryArray]
AGE_BYTES = 8
"""A value that ages has the time of its last refresh in front: an int64, little endian."""
_WORDS = {
    "kind": "kind", "keys": "keys", "key_dtype": "map's keys", "fold": "fold",
    "ages": "a time to live",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One state as it was stored; `number` is its place among them."""

    number: int
    name: str
    kind: Kind
    keys: pa.Schema
    dtype: pa.DataType
    key_dtype: pa.DataType | None
    fold: str
    ages: bool

    @classmethod
    def of(cls, spec: StateSpec, number: int) -> Stored:
        """A state of now."""
        fold = spec.function if isinstance(spec.function, str) else ""
        return cls(
            number=number, name=spec.name, kind=spec.kind, keys=spec.keys.remove_metadata(),
            dtype=spec.dtype, key_dtype=spec.key_dtype, fold=fold, ages=spec.ttl_us > 0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Which backend wrote which states of which key groups.

    `next_number` follows every list element's; `contents` names the bytes of files that never
    change.
    """

    backend: str
    key_groups: range
    states: tuple[Stored, ...]
    next_number: int = 0
    contents: Mapping[str, str] = field(default_factory=dict)

    def stored(self, name: str) -> Stored | None:
        """The state of that name."""
        return next((state for state in self.states if state.name == name), None)

    def to_json(self) -> bytes:
        """As it is stored."""
        groups = [self.key_groups.start, self.key_groups.stop]
        states = [_state_json(state) for state in self.states]
        found = {
            "format": _FORMAT, "version": _VERSION, "backend": self.backend, "key_groups": groups,
            "states": states, "next_number": self.next_number, "contents": dict(self.contents),
            "closed": False,  # earlier releases look for it
        }  # fmt: skip
        return json.dumps(found, sort_keys=True).encode()


def read_header(data: bytes, where: str) -> Header:
    """The way back; `where` is for the error.

    Raises
    ------
    StorageError
        If it is no such header, is damaged, or of a later version.
    """
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise StorageError(f"{where} is not a state of Fabric")
        if found["version"] != _VERSION:
            raise StorageError(
                f"{where} holds state of version {found['version']!r}, this Fabric reads version "
                f"{_VERSION}: use the one that wrote it"
            )
        return Header(
            backend=str(found["backend"]), key_groups=range(*map(int, found["key_groups"])),
            states=tuple(map(_state, found["states"])), next_number=int(found["next_number"]),
            contents={str(name): str(text) for name, text in found["contents"].items()},
        )  # fmt: skip
    except StorageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise StorageError(f"{where} is damaged: {error!r}") from error


def _state_json(state: Stored) -> dict[str, Any]:
    types = [("dtype", state.dtype)]
    if state.key_dtype is not None:
        types.append(("key_dtype", state.key_dtype))
    return {
        "number": state.number, "name": state.name, "kind": state.kind, "fold": state.fold,
        "ages": state.ages, "keys": _text(state.keys), "types": _text(pa.schema(types)),
    }  # fmt: skip


def _state(found: dict[str, Any]) -> Stored:
    types = _schema(found["types"])
    return Stored(
        number=int(found["number"]), name=str(found["name"]), kind=found["kind"],
        keys=_schema(found["keys"]), dtype=types.field(0).type,
        key_dtype=types.field(1).type if len(types) > 1 else None,
        fold=str(found["fold"]), ages=bool(found["ages"]),
    )  # fmt: skip


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))


def stored_text(state: Stored) -> str:
    """A state as text, for whoever compares plans; `read_stored` is the way back.

    >>> state = Stored(number=0, name="n", kind="value", keys=pa.schema({"k": "int8"}),
    ...     dtype=pa.int32(), key_dtype=None, fold="", ages=False)
    >>> read_stored(stored_text(state)) == state
    True
    """
    return json.dumps(_state_json(state), sort_keys=True)


def read_stored(text: str) -> Stored:
    """What `stored_text` wrote; anything else is a `StorageError`."""
    try:
        return _state(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise StorageError(f"what is said of a state is damaged: {error!r}") from error


def check_states(header: Header, specs: Sequence[StateSpec], dropped: Sequence[str]) -> None:
    """Refuse stored states that are not declared any more, or go with nothing that is."""
    declared = {spec.name: spec for spec in specs}
    for stored in header.states:
        if (spec := declared.get(stored.name)) is not None:
            conversion(stored, spec)
        elif stored.name not in dropped:
            raise StateSchemaError(
                f"the snapshot holds state {stored.name!r} ({stored.kind} of {stored.dtype}), "
                "which is not declared any more: declare it, or name it among the dropped ones"
            )


def conversion(stored: Stored, spec: StateSpec) -> Convert | None:
    """Values as they were stored to values of now; None when they are the same.

    Raises
    ------
    StateSchemaError
        If the state can't go on as it is declared now.
    """
    check_change(stored, Stored.of(spec, stored.number))
    return None if stored.dtype == spec.dtype else _converter(stored.dtype, spec)


def check_change(stored: Stored, now: Stored) -> None:
    """Refuse a state of now that what was stored can't become, see `conversion`."""
    for what in ("kind", "keys", "key_dtype", "fold", "ages"):
        old, new = getattr(stored, what), getattr(now, what)
        if (old.types != new.types) if what == "keys" else (old != new):
            raise _refused(now.name, _WORDS[what], _shown(old), _shown(new))
    if not widens(stored.dtype, now.dtype):
        raise _refused(now.name, "values", str(stored.dtype), str(now.dtype))


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of `old` is one of `new`.

    >>> widens(pa.int32(), pa.int64()), widens(pa.int64(), pa.float64())
    (True, False)
    """
    if old == new:
        return True
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _struct_widens(old, new)
    for is_kind in (pa.types.is_list, pa.types.is_large_list):
        if is_kind(old) and is_kind(new):
            return widens(old.value_type, new.value_type)
    return _number_widens(old, new)


def _struct_widens(old: pa.StructType, new: pa.StructType) -> bool:
    before = {field.name: field for field in old}
    after = {field.name: field for field in new}
    if len(before) != old.num_fields or len(after) != new.num_fields or before.keys() - after:
        return False
    return all(
        widens(before[name].type, field.type) if name in before else field.nullable
        for name, field in after.items()
    )


def _number_widens(old: pa.DataType, new: pa.DataType) -> bool:
    types = pa.types
    if types.is_floating(old):
        return bool(types.is_floating(new) and new.bit_width > old.bit_width)
    if not types.is_integer(old):
        return False
    if types.is_floating(new):
        return bool(types.is_float64(new) and old.bit_width <= 32)
    if not types.is_integer(new) or new.bit_width <= old.bit_width:
        return False
    return bool(types.is_signed_integer(new) or types.is_unsigned_integer(old))


def _converter(old: pa.DataType, spec: StateSpec) -> Convert:
    before, after = RowCodec(pa.schema([("value", old)])), spec.value_codec()
    skip = AGE_BYTES if spec.ttl_us else 0

    def convert(values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        (column,) = before.decode(values, skip)
        rows = after.encode([_cast(column, spec.dtype)])
        return _with_fronts(values, rows, skip) if skip else rows

    return convert


def _cast(column: pa.Array, new: pa.DataType) -> pa.Array:
    """By name; a field that is new is null. pyarrow's own cast wants fields in their order."""
    old = column.type
    if old == new:
        return column
    if pa.types.is_struct(old):
        names = [field.name for field in old]
        children = [
            _cast(column.field(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(column), field.type)
            for field in new
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(new), mask=column.is_null() if column.null_count else None
        )
    if pa.types.is_list(old) or pa.types.is_large_list(old):
        return type(column).from_arrays(
            column.offsets, _cast(column.values, new.value_type), type=new,
            mask=column.is_null() if column.null_count else None,
        )  # fmt: skip
    return column.cast(new)


def _with_fronts(
    old: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, n: int
) -> pa.LargeBinaryArray:
    """`rows` behind the first `n` bytes of each of `old`."""
    fronts = pa.compute.binary_slice(old.cast(pa.binary()), 0, n).cast(pa.large_binary())
    empty = pa.scalar(b"", pa.large_binary())
    return pa.compute.binary_join_element_wise(fronts, rows, empty)


def _shown(value: object) -> str:
    if isinstance(value, pa.Schema):
        return ", ".join(f"{field.name} {field.type}" for field in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value else "none"


def _refused(name: str, what: str, old: str, new: str) -> StateSchemaError:
    return StateSchemaError(
        f"state {name!r} of the snapshot does not go with the one declared: {what} was {old}, is "
        f"{new}; values may get nullable fields and wider numbers, for all else use another name"
    )
