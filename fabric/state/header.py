"""What lies in a snapshot or a folder of states, written down beside it.

One job: `Header`, its JSON, and strict reading. It names each state with its types, so that another
run can tell whether its own states go with them (`evolution.py`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fabric.errors import StorageError
from fabric.state.spec import Kind, StateSpec

FILE = "state.json"
_FORMAT, _VERSION = "fabric state", 1


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
    change; `closed` says that a folder was left whole.
    """

    backend: str
    key_groups: range
    states: tuple[Stored, ...]
    next_number: int = 0
    contents: Mapping[str, str] = field(default_factory=dict)
    closed: bool = False

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
            "closed": self.closed,
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
            closed=bool(found["closed"]),
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
