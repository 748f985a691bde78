"""Schemas as no writer makes them: small messages that unfold to much.

One job: `folded`, which lets every field of a schema be the first one among its siblings. A
flatbuffer may refer to the same table from many places; who reads it makes each of them anew.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_PREFIX_BYTES = 8
_HEADER, _FIELDS, _CHILDREN = 2, 1, 5  # of Message, Schema and Field


def folded(schema: pa.Schema) -> bytes:
    """The IPC message of `schema`, in which fields and children all are the first of their kind.

    >>> schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    >>> pa.ipc.read_schema(pa.py_buffer(folded(schema))).names
    ['a', 'a']
    """
    message = bytearray(schema.serialize().to_pybytes())
    flat = _Flat(memoryview(message)[_PREFIX_BYTES:])
    flat.fold(flat.at(flat.at(flat.follow(0), _HEADER), _FIELDS))
    return bytes(message)


class _Flat:
    """A flatbuffer in place."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def follow(self, place: int) -> int:
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def at(self, table: int, field: int) -> int:
        """What a field of a table refers to; 0 for nothing."""
        vtable = table - struct.unpack_from("<i", self._data, table)[0]
        (size,) = struct.unpack_from("<H", self._data, vtable)
        slot = 4 + 2 * field
        (offset,) = struct.unpack_from("<H", self._data, vtable + slot) if slot < size else (0,)
        return self.follow(table + offset) if offset else 0

    def fold(self, vector: int) -> None:
        (n,) = struct.unpack_from("<I", self._data, vector) if vector else (0,)
        if n == 0:
            return
        first = self.follow(vector + 4)
        for place in range(vector + 4, vector + 4 + 4 * n, 4):
            struct.pack_into("<I", self._data, place, first - place)
        self.fold(self.at(first, _CHILDREN))
