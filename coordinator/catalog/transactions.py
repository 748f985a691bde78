"""A write to a dataset: what it is, and what it may be.

`Transaction` is one begun write. The checks refuse a begin, an append or a commit that does not fit
the dataset that is there, each with what would.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fabric._cython.shuffle.wire.headers import check_schema
from fabric.control import control_pb2 as pb
from fabric.control.datasets import n_replicas
from fabric.coordinator.catalog.replicas import in_common
from fabric.coordinator.core.agents.validation import COUNT_MAX
from fabric.errors import ConfigError, DataError
from fabric.ids import check_name
from fabric.plan.bounds import DATASET_PARTITIONS_MAX

MODES = ("create", "append", "overwrite")
_SCHEMA_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One begun write; `version` is that of the dataset once committed, 0 before."""

    transaction: str
    name: str
    schema: str
    keys: tuple[str, ...]
    owners: tuple[str, ...]
    mode: str
    idempotency_key: str
    begun_s: float
    version: int = 0
    replicas: int = 1
    subject: str = ""
    """Whose the idempotency key is; "": a job's."""
    committed: tuple[str, ...] = ()
    """The parts that were committed, as `part_line` writes them."""

    def location(self) -> pb.DatasetLocation:
        """What a writer needs to know: where each partition goes."""
        return pb.DatasetLocation(
            name=self.name,
            version=self.version,
            schema=base64.b64decode(self.schema),
            keys=self.keys,
            n_partitions=len(self.owners) // self.replicas,
            owners=self.owners,
            replicas=self.replicas,
        )


def check_begin(request: pb.DatasetBegin) -> tuple[pa.Schema, tuple[str, ...]]:
    """The schema and the keys of a dataset that is to be written; refuses what can't be one."""
    check_name(request.name, "dataset name")
    if request.mode not in ("", *MODES):
        raise ConfigError(f"mode {request.mode[:40]!r} is unknown; use one of {', '.join(MODES)}")
    if request.n_partitions > DATASET_PARTITIONS_MAX:
        raise ConfigError(
            f"a dataset has at most {DATASET_PARTITIONS_MAX} partitions, got {request.n_partitions}"
        )
    schema = read_schema(request.schema)
    for key in request.keys:
        if schema.get_field_index(key) < 0:
            raise ConfigError(
                f"key {key[:128]!r} is not a column of the dataset; its columns are "
                f"{', '.join(schema.names[:20])}"
            )
    return schema, tuple(request.keys)


def check_append(request: pb.DatasetBegin, current: pb.DatasetLocation, schema: pa.Schema) -> None:
    """Refuse rows, keys or partitions that are not those of the dataset."""
    expected = read_schema(current.schema)
    if not schema.equals(expected):
        raise DataError(
            f"dataset {request.name!r} has columns {columns_text(expected)}, "
            f"the rows to append have {columns_text(schema)}"
        )
    check_layout(request.keys, request.n_partitions, request.replicas, current)


def check_layout(
    keys: Sequence[str], n_partitions: int, replicas: int, current: pb.DatasetLocation
) -> None:
    """Refuse an append that asks for other partitions or replicas than there are; none: any."""
    if keys and tuple(keys) != tuple(current.keys):
        raise ConfigError(
            f"dataset {current.name!r} is partitioned by {list(current.keys)}, an append can't "
            f"partition by {list(keys)}"
        )
    if n_partitions not in (0, current.n_partitions):
        raise ConfigError(
            f"dataset {current.name!r} has {current.n_partitions} partitions, an append can't "
            f"have {n_partitions}"
        )
    if replicas not in (0, n_replicas(current)):
        raise ConfigError(
            f"dataset {current.name!r} has replicas={n_replicas(current)}, an append can't have "
            f"replicas={replicas}; overwrite it, or leave replicas out"
        )


def owners_of_both(current: pb.DatasetLocation, appended: pb.DatasetLocation) -> tuple[str, ...]:
    """The owners that hold the rows there are and those appended: some may have moved meanwhile."""
    same = (current.keys, n_replicas(current)) == (appended.keys, appended.replicas)
    owners = in_common(current.owners, appended.owners, appended.replicas)
    if owners is None or not same:
        raise ConfigError(
            f"dataset {current.name!r} was replaced after this append began; begin again"
        )
    return owners


def check_parts(
    transaction: Transaction, parts: Iterable[pb.CommittedPart]
) -> list[pb.CommittedPart]:
    """The parts of a commit, each of another writer, as they are kept."""
    checked: list[pb.CommittedPart] = []
    writers: set[str] = set()
    for part in parts:
        if part.transaction not in ("", transaction.transaction):
            raise ConfigError(f"part of writer {part.writer!r} belongs to another transaction")
        if part.writer in writers:
            raise ConfigError(
                f"writer {part.writer!r} is listed twice; a commit takes one attempt of a writer"
            )
        writers.add(check_name(part.writer, "writer"))
        if part.rows > COUNT_MAX:
            raise ConfigError(f"writer {part.writer!r} can't have put {part.rows} rows")
        kept = pb.CommittedPart()
        kept.CopyFrom(part)
        kept.transaction = transaction.transaction
        checked.append(kept)
    return checked


def check_same(transaction: Transaction, parts: Sequence[pb.CommittedPart]) -> None:
    """Refuse to commit again with other parts: those rows would be thought to be there.

    Fewer are fine: a task of a stream that has not heard of a commit names its part of it again.
    """
    if not set(transaction.committed).issuperset(map(part_line, parts)):
        raise ConfigError(
            f"transaction {transaction.transaction} on dataset {transaction.name!r} is committed "
            "already, with other parts; a commit is repeated with the same parts, other rows need "
            "a transaction of their own"
        )


def part_line(part: pb.CommittedPart) -> str:
    """A part as a transaction remembers it."""
    return f"{part.writer} {part.attempt} {part.rows}"


def read_schema(data: bytes) -> pa.Schema:
    """Read a schema that came over the wire; `DataError` when it is none."""
    if len(data) > _SCHEMA_BYTES_MAX:
        raise DataError(f"a schema takes at most {_SCHEMA_BYTES_MAX} bytes, got {len(data)}")
    check_schema(data)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError("the schema can't be read as an Arrow IPC schema message") from error
    if len(set(schema.names)) != len(schema.names):
        raise DataError("the schema names a column twice; column names must differ")
    return schema


def columns_text(schema: pa.Schema) -> str:
    """Names and types, for people."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def transaction_of(data: bytes) -> Transaction:
    """A transaction as it was written down."""
    values = json.loads(data)
    lists = ("keys", "owners", "committed")
    return Transaction(**{**values, **{name: tuple(values[name]) for name in lists}})
