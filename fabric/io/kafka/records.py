"""Rows as Kafka records: key, value, and whatever else a target takes from columns.

One job: `Records`, which encodes batches, and the check of a target's columns before a job starts.
Encoded records are rows of a table (`RECORD_COLUMNS`), so that they can be staged in files until
their checkpoint is complete: the publisher needs neither plan nor encoder.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import DataError, PlanError
from fabric.io.codecs import check_format, make_encoder
from fabric.io.schema_registry.subjects import settled
from fabric.plan.faults import quoted
from fabric.plan.places import RowFormat
from fabric.plan.targets import KafkaTarget
from fabric.plan.types import is_binary, is_string

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())]))
RECORD_COLUMNS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "timestamp": pa.int64(),
}
"""The columns of an encoded record; those that a target never sets are left out."""
OVERHEAD_BYTES = 100
"""An upper bound for the bytes of a one-record batch besides its key, value and headers."""
INSERTED, WITHDRAWN, REPLACED = "+I", "-D", "-U"
_INT32_MAX = (1 << 31) - 1


def check_columns(target: KafkaTarget, schema: pa.Schema) -> None:
    """Refuse a target whose columns do not exist or have an unsuitable type.

    Raises
    ------
    PlanError
        The message names the column, its type, and what is expected.
    """
    if bool(target.topic) == bool(target.topic_column):
        raise PlanError("a record goes to one topic: give its name, or the column that contains it")
    for name, what, expected, fits in (
        (target.topic_column, "the topic", "string", _is_text),
        (target.partition_column, "the partition", "an integer", pa.types.is_integer),
        (target.timestamp, "the timestamp", "a timestamp", pa.types.is_timestamp),
        (target.headers, "the headers", "map<string, binary>", _is_headers),
    ):
        if name and not fits(_type(schema, name)):
            raise PlanError(
                f"column {quoted(name)} cannot be {what} of a record: it is "
                f"{_type(schema, name)}, expected {expected}"
            )
    for name in (*target.key, *target.columns):
        _type(schema, name)
    if target.kind and not target.key:
        raise PlanError(
            "changing results are written as upserts, which need the columns that identify a row; "
            "write: key="
        )
    if target.key_format.name != "raw":
        check_format(key_format(target), _part(schema, target.key), writes=True)
    elif len(target.key) > 1:
        names = ", ".join(map(quoted, target.key))
        raise PlanError(
            f"a raw key is one column, got {names}; choose a format for several columns, as in "
            'key_format="json"'
        )
    elif target.key and not _is_bytes(_type(schema, target.key[0])):
        raise PlanError(
            f"column {quoted(target.key[0])} is {_type(schema, target.key[0])}, and a raw key must "
            'be string or binary; choose a format, as in key_format="json", or cast the column'
        )
    check_format(value_format(target), _part(schema, value_columns(target, schema)), writes=True)


def value_format(target: KafkaTarget) -> RowFormat:
    """The format of values, with the subject that their schema is registered under."""
    return settled(target.value, target.topic, "value", reads=False)


def key_format(target: KafkaTarget) -> RowFormat:
    """The format of keys, with the subject that their schema is registered under."""
    return settled(target.key_format, target.topic, "key", reads=False)


def value_columns(target: KafkaTarget, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that make up a record's value."""
    if target.columns:
        return target.columns
    others = {
        target.topic_column, target.partition_column, target.headers, target.timestamp, target.kind,
    }  # fmt: skip
    return tuple(name for name in schema.names if name not in others)


class Records:
    """Encodes rows of `schema` as records for `target`."""

    def __init__(self, target: KafkaTarget, schema: pa.Schema) -> None:
        check_columns(target, schema)
        self._target = target
        self._value_names = list(value_columns(target, schema))
        self._value = make_encoder(value_format(target), _part(schema, self._value_names))
        self._key = None
        if target.key and target.key_format.name != "raw":
            self._key = make_encoder(key_format(target), _part(schema, target.key))
        wanted = {
            "topic": target.topic_column, "partition": target.partition_column, "key": target.key,
            "value": True, "headers": target.headers, "timestamp": target.timestamp,
        }  # fmt: skip
        self.schema = pa.schema([(n, RECORD_COLUMNS[n]) for n, given in wanted.items() if given])

    def made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of `batch`, in its order; changing results become upserts and deletes.

        Raises
        ------
        DataError
            A row has a null topic or partition, or a partition out of range.
        """
        target, kinds = self._target, None
        if target.kind:
            kinds = batch.column(target.kind)
            batch = batch.filter(pc.not_equal(kinds, REPLACED))
            kinds = batch.column(target.kind)
        values = _plain(self._value.encode(batch.select(self._value_names)))
        if kinds is not None:
            values = pc.if_else(pc.equal(kinds, WITHDRAWN), pa.scalar(None, pa.binary()), values)
        found: dict[str, Any] = {"value": values}
        if target.key:
            found["key"] = self._keys(batch)
        if target.topic_column:
            found["topic"] = _filled(batch, target.topic_column).cast(pa.string())
        if target.partition_column:
            found["partition"] = _partitions(batch, target.partition_column)
        if target.headers:
            found["headers"] = headers_of(batch.column(target.headers))
        if target.timestamp:
            times = batch.column(target.timestamp)
            unit = pa.timestamp("ms", times.type.tz)
            found["timestamp"] = times.cast(unit, safe=False).cast(pa.int64())
        return pa.record_batch([found[name] for name in self.schema.names], schema=self.schema)

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        if self._key is not None:
            return _plain(self._key.encode(batch.select(list(self._target.key))))
        return _plain(batch.column(self._target.key[0]))


def headers_of(column: pa.Array) -> pa.Array:
    """A column of maps, or of lists of structs of key and value, as records' headers.

    >>> headers_of(pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary()))).to_pylist()
    [[{'key': 'a', 'value': b'1'}], None]
    """
    column = pa.concat_arrays([column])
    if column.offset:
        column = column.take(pa.array(range(len(column))))
    entries = column.values
    parts = [entries.field(0).cast(pa.string()), _plain(entries.field(1))]
    inner = pa.StructArray.from_arrays(parts, fields=list(HEADERS.value_type))
    validity = column.buffers()[0]
    offsets = column.buffers()[1]
    return pa.ListArray.from_buffers(HEADERS, len(column), [validity, offsets], children=[inner])


def _plain(values: pa.Array) -> pa.Array:
    """Strings or bytes as an array of `pa.binary()`."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_binary(values.type):
        return values
    return values.cast(pa.binary())


def _filled(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if column.null_count:
        row = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
        raise DataError(
            f"row {row} of a batch has null in column {quoted(name)}, which names the topic or "
            "partition of the record; fill the nulls, or filter these rows out"
        )
    return column


def _partitions(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = _filled(batch, name)
    if len(column):
        ends = pc.min_max(column).as_py()
        if ends["min"] < 0 or ends["max"] > _INT32_MAX:
            wrong = ends["min"] if ends["min"] < 0 else ends["max"]
            raise DataError(
                f"column {quoted(name)} contains {wrong}, expected a partition of 0 to {_INT32_MAX}"
            )
    return column.cast(pa.int32())


def _part(schema: pa.Schema, names: Any) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    if name not in schema.names:
        known = ", ".join(map(quoted, schema.names))
        raise PlanError(f"there is no column {quoted(name)} to write; the columns are {known}")
    return schema.field(name).type


def _is_text(type: pa.DataType) -> bool:
    return is_string(type) and not pa.types.is_run_end_encoded(type)


def _is_bytes(type: pa.DataType) -> bool:
    return _is_text(type) or (is_binary(type) and not pa.types.is_run_end_encoded(type))


def _is_headers(type: pa.DataType) -> bool:
    if pa.types.is_map(type):
        return is_string(type.key_type) and _is_bytes(type.item_type)
    if not pa.types.is_list(type) or not pa.types.is_struct(type.value_type):
        return False
    entry = type.value_type
    names = [entry.field(n).name for n in range(entry.num_fields)]
    return names == ["key", "value"] and is_string(entry[0].type) and _is_bytes(entry[1].type)
