"""Records of a partition as the columns that a plan needs.

One job: `Records`, which knows what to request from the client, decodes keys, and orders the
columns. The client decodes values in the same call that reads them, without the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from fabric._cython.kafka.results import COLUMNS
from fabric.io.kafka.splits import Place, key_columns, value_columns
from fabric.io.readers.protocol import BadRecord
from fabric.plan.sources import KafkaStream, RowFormat

if TYPE_CHECKING:
    from fabric._cython.codecs.codec import Decoder
    from fabric.io.kafka.library import Reader

ROWS_MAX = 16_384
"""Per read: larger reads cost more per row, because of CPU caches."""
BYTES_MAX = 8 << 20


class Records:
    """Reads the columns of `schema`, a subset of the scan's `full` schema, from `source`."""

    def __init__(self, source: KafkaStream, schema: pa.Schema, full: pa.Schema) -> None:
        self._schema = schema
        self._key = _Coded(source.key_format, key_columns(source, full), schema)
        self._value = _Coded(source.value, value_columns(source, full), schema)
        self._parts = {name: part for part, name in source.columns if name in schema.names}
        wants: set[str] = {"offset", *self._parts.values()}
        wants |= {"key"} if self._key.is_needed else set()
        wants |= {"value"} if self._value.names and self._value.decoder is None else set()
        self._wants = frozenset(wants)
        self._ordered = [part for part in COLUMNS.names if part in wants]
        none = [pa.array([], field.type) for field in schema]
        self.empty = _batch(none, schema, 0)
        """A batch of `schema` without rows."""

    def read(
        self, client: Reader, place: Place, rows_max: int, bytes_max: int, end: int | None
    ) -> tuple[pa.RecordBatch, list[BadRecord], int] | None:
        """Rows, unreadable records and total bytes read; None if no records are available now.

        Records at offset `end` and later are left out.
        """
        found = client.read(
            *place,
            min(rows_max, ROWS_MAX),
            wants=self._wants,
            decoder=self._value.decoder,
            bytes_max=min(bytes_max, BYTES_MAX),
        )
        if found is None:
            return None
        bad = [BadRecord(*place, one.offset, one.value, one.reason) for one in found.bad]
        n_parts = len(self._ordered)
        columns = found.batch.columns
        rows = _Rows(dict(zip(self._ordered, columns[:n_parts], strict=True)), columns[n_parts:])
        if end is not None:
            rows.cut(end)
            bad = [one for one in bad if one.offset < end]
        keys: Sequence[pa.Array] = ()
        if self._key.decoder is not None:
            keys, bad_keys = rows.decoded_keys(self._key.decoder, place)
            bad += bad_keys
        elif self._key.is_needed:
            keys = [rows.parts["key"]]
        values = rows.values if self._value.decoder else [rows.parts.get("value")]
        arrays = {name: rows.parts[part] for name, part in self._parts.items()}
        arrays |= zip(self._key.names, keys, strict=False)
        arrays |= zip(self._value.names, values, strict=False)
        ordered = [arrays[name] for name in self._schema.names]
        return _batch(ordered, self._schema, rows.n), bad, found.n_bytes


class _Coded:
    """A record's key or value: `columns` are all of its columns, those in `wanted` are read."""

    def __init__(self, format: RowFormat, columns: pa.Schema, wanted: pa.Schema) -> None:
        self.names = [name for name in columns.names if name in wanted.names]
        self.decoder: Decoder | None = None
        if len(columns) and format.name != "raw":
            from fabric.io.codecs import make_decoder

            self.decoder = cast("Decoder", make_decoder(format, columns, self.names))
        # Unreadable records must be found even if the rows are only counted.
        self.is_needed = bool(self.names) or self.decoder is not None


class _Rows:
    """Records being read: an array per record part, and the columns of their values."""

    def __init__(self, parts: dict[str, pa.Array], values: list[pa.Array]) -> None:
        self.parts, self.values = parts, values

    @property
    def n(self) -> int:
        return len(self.parts["offset"])

    def cut(self, end: int) -> None:
        """Leave out records at offset `end` and later."""
        n = int(self.parts["offset"].to_numpy().searchsorted(end))
        if n < self.n:
            self._keep(lambda column: column.slice(0, n))

    def decoded_keys(
        self, decoder: Decoder, place: Place
    ) -> tuple[list[pa.Array], list[BadRecord]]:
        """The columns of the keys; records whose key cannot be decoded are removed."""
        keys, offsets = self.parts["key"], self.parts["offset"]
        decoded = decoder.decode(keys)
        bad = [
            BadRecord(*place, offsets[one.row].as_py(), keys[one.row].as_py(), one.reason)
            for one in decoded.bad
        ]
        if decoded.origin is not None:
            rows = pa.array(decoded.origin)
            self._keep(lambda column: column.take(rows))
        elif bad:
            gone = {one.row for one in decoded.bad}
            good = pa.array([row not in gone for row in range(len(keys))])
            self._keep(lambda column: column.filter(good))
        return decoded.batch.columns, bad

    def _keep(self, chosen: Callable[[pa.Array], pa.Array]) -> None:
        self.parts = {part: chosen(column) for part, column in self.parts.items()}
        self.values = [chosen(column) for column in self.values]


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, n_rows: int) -> pa.RecordBatch:
    if not arrays:  # rows are only counted
        return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)
