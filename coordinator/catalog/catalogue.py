"""The dataset catalogue: which datasets exist, and the open transactions on them.

One job: begin, commit, abort, drop and list as pure state changes. Every change comes back as the
records to write first; the rows themselves lie with the owners (`fabric.io.dataset`). A commit
publishes just the attempts it lists, all at once, and may be repeated.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from fabric._cython.shuffle.wire.unfolding import check_schema
from fabric.control import control_pb2 as pb
from fabric.control.datasets import is_kept, job_of, n_replicas
from fabric.coordinator.catalog.replicas import in_common, spread_out
from fabric.coordinator.catalog.views import shown
from fabric.coordinator.core.agents.validation import COUNT_MAX
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.submit.idempotency import check_key
from fabric.errors import ConfigError, DataError, NotFoundError, PeerLostError
from fabric.ids import check_name
from fabric.plan.bounds import DATASET_PARTITIONS_MAX

MODES = ("create", "append", "overwrite")
ROWS_MAX = (1 << 63) - 1
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
    """The parts that were committed, as `_line` writes them."""

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


class Catalogue:
    """Datasets by name and transactions by id."""

    def __init__(self) -> None:
        self._datasets: dict[str, pb.DatasetLocation] = {}
        self._transactions: dict[str, Transaction] = {}

    def restore(
        self, datasets: Iterable[tuple[str, bytes]], transactions: Iterable[tuple[str, bytes]]
    ) -> None:
        """Take what a store kept."""
        self._datasets = {k: pb.DatasetLocation.FromString(value) for k, value in datasets}
        self._transactions = {key: _from_record(value) for key, value in transactions}

    def find(self, name: str) -> pb.DatasetLocation | None:
        """The dataset `name`, if there is one."""
        return self._datasets.get(name)

    def get(self, name: str, version: int = 0) -> pb.DatasetLocation:
        """The dataset `name`; `NotFoundError` when there is none, or not in this version."""
        found = self._datasets.get(name)
        if found is None:
            known = ", ".join(sorted(self._datasets)[:10]) or "none yet"
            raise NotFoundError(f"there is no dataset {name[:128]!r}; known: {known}")
        if version and version != found.version:
            raise NotFoundError(
                f"dataset {name!r} is at version {found.version}, version {version} is not kept"
            )
        return found

    def locate(self, name: str) -> pb.DatasetLocation:
        """The dataset `name`; or where the open transaction of that id writes (version 0)."""
        begun = self._transactions.get(name)
        return begun.location() if begun and not begun.version else self.get(name)

    def all(self) -> list[pb.DatasetLocation]:
        """Every dataset, by name."""
        return [self._datasets[name] for name in sorted(self._datasets)]

    def begin(
        self, request: pb.DatasetBegin, transaction_id: str, agents: Sequence[str], wall_s: float
    ) -> tuple[Transaction, list[Write]]:
        """Open a transaction; the same subject's same idempotency key gives the open one again."""
        check_key(request.idempotency_key)
        if request.idempotency_key:
            asked = (request.subject, request.idempotency_key, request.name)
            for known in self._transactions.values():
                if (known.subject, known.idempotency_key, known.name) == asked:
                    return known, []
        schema, keys = _check_begin(request)
        owners, replicas = self._owners(request, schema, agents)
        transaction = Transaction(
            transaction=transaction_id,
            name=request.name,
            schema=base64.b64encode(request.schema).decode(),
            keys=keys or self._known_keys(request),
            owners=owners,
            replicas=replicas,
            mode=request.mode or "create",
            idempotency_key=request.idempotency_key,
            subject=request.subject,
            begun_s=wall_s,
        )
        return transaction, [self._put(transaction)]

    def commit(
        self, request: pb.DatasetCommit
    ) -> tuple[pb.DatasetLocation, list[Write], pb.DatasetLocation | None]:
        """Publish the listed attempts. The third value is the changed dataset, None on a repeat."""
        transaction = self._transaction(request.transaction)
        parts = _check_parts(transaction, request.parts)
        if transaction.version:
            _check_same(transaction, parts)
            known = self._datasets.get(transaction.name)
            return known or transaction.location(), [], None
        current = self._datasets.get(transaction.name)
        if transaction.mode == "create" and current is not None:
            raise _exists(transaction.name)
        appends = transaction.mode == "append" and current is not None
        location = transaction.location()
        if appends and current is not None:
            location.owners[:] = _owners_of_both(current, location)
        location.version = 1 + (current.version if current is not None else 0)
        location.made_by = "" if transaction.subject else transaction.idempotency_key
        if appends and current is not None:
            location.made_by = current.made_by
            location.parts.extend(current.parts)
        location.parts.extend(parts)
        location.rows = sum(part.rows for part in location.parts)
        if location.rows > ROWS_MAX:
            raise ConfigError(
                f"dataset {location.name!r} would have {location.rows} rows, at most {ROWS_MAX} "
                "can be counted"
            )
        done = replace(transaction, version=location.version, committed=tuple(map(_line, parts)))
        self._datasets[location.name] = location
        return location, [_record(location), self._put(done)], location

    def show(
        self, request: pb.DatasetView, running: Collection[str] = ()
    ) -> tuple[list[pb.DatasetLocation], list[str], list[Write]]:
        """What a view was at a checkpoint: the changed datasets, and the names that are no more."""
        read_schema(request.schema)
        changed, dropped = shown(self._datasets, request, running)
        self._datasets |= {each.name: each for each in changed}
        for name in dropped:
            del self._datasets[name]
        gone = [Write("datasets", name, None) for name in dropped]
        return changed, dropped, [*map(_record, changed), *gone]

    def move(self, name: str, place: int, owner: str) -> tuple[pb.DatasetLocation, list[Write]]:
        """Give one place among a dataset's owners to another agent, which holds all of it.

        The version stays: the rows are the same.
        """
        location = pb.DatasetLocation()  # what was given out before is never changed
        location.CopyFrom(self.get(name))
        location.owners[place] = owner
        self._datasets[name] = location
        return location, [_record(location)]

    def abort(self, transaction_id: str) -> list[Write]:
        """Forget an open transaction; an unknown one is forgotten already."""
        known = self._transactions.get(transaction_id)
        if known is None:
            return []
        if known.version:
            raise ConfigError(
                f"transaction {transaction_id} is committed; drop the dataset instead"
            )
        return [self._forget(transaction_id)]

    def take_back(self, transaction_id: str) -> tuple[list[Write], pb.DatasetLocation | None]:
        """Forget an open transaction, or have a version follow without what it committed.

        The second value is the changed dataset; None where no dataset has these rows. That the
        transaction was committed stays known, so that committing it again changes nothing.
        """
        known = self._transactions.get(transaction_id)
        if known is not None and not known.version:
            return [self._forget(transaction_id)], None
        for found in self._datasets.values():
            parts = [part for part in found.parts if part.transaction != transaction_id]
            if len(parts) < len(found.parts):
                location = pb.DatasetLocation()  # what was given out before is never changed
                location.CopyFrom(found)
                del location.parts[:]
                location.parts.extend(parts)
                location.version, location.rows = found.version + 1, sum(p.rows for p in parts)
                self._datasets[location.name] = location
                return [_record(location)], location
        return [], None

    def drop(self, name: str) -> list[Write]:
        """Forget a dataset and its open transactions."""
        self.get(name)
        del self._datasets[name]
        ids = [key for key, value in self._transactions.items() if value.name == name]
        return [Write("datasets", name, None), *(self._forget(key) for key in sorted(ids))]

    def expire(self, older_than_s: float) -> list[Write]:
        """Forget every transaction begun before; of a committed one only the memory of it goes."""
        old = [key for key, value in self._transactions.items() if value.begun_s < older_than_s]
        return [self._forget(key) for key in sorted(old)]

    def _owners(
        self, request: pb.DatasetBegin, schema: pa.Schema, agents: Sequence[str]
    ) -> tuple[tuple[str, ...], int]:
        """The owners of what is to be written, and how many each partition has."""
        current = self._datasets.get(request.name)
        if current is not None and request.mode in ("", "create"):
            raise _exists(request.name)
        if current is not None and is_kept(current):
            raise ConfigError(
                f"{request.name!r} is a view that job {job_of(current)} keeps; "
                "write to another dataset"
            )
        if current is not None and request.mode == "append":
            _check_append(request, current, schema)
            return tuple(current.owners), n_replicas(current)
        if not agents:
            raise PeerLostError(
                "no agent is attached that could own the dataset's partitions; start one with "
                "`fabric agent` or `fabric up`"
            )
        replicas = request.replicas or 1
        return spread_out(agents, request.n_partitions or len(agents), replicas), replicas

    def _known_keys(self, request: pb.DatasetBegin) -> tuple[str, ...]:
        current = self._datasets.get(request.name)
        return tuple(current.keys) if current is not None and request.mode == "append" else ()

    def _transaction(self, transaction_id: str) -> Transaction:
        known = self._transactions.get(transaction_id)
        if known is None:
            raise NotFoundError(
                f"there is no transaction {transaction_id[:128]!r}; it was aborted or is too old"
            )
        return known

    def _put(self, transaction: Transaction) -> Write:
        self._transactions[transaction.transaction] = transaction
        record = json.dumps(asdict(transaction), sort_keys=True).encode()
        return Write("transactions", transaction.transaction, record)

    def _forget(self, transaction_id: str) -> Write:
        del self._transactions[transaction_id]
        return Write("transactions", transaction_id, None)


def _check_begin(request: pb.DatasetBegin) -> tuple[pa.Schema, tuple[str, ...]]:
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


def _check_append(request: pb.DatasetBegin, current: pb.DatasetLocation, schema: pa.Schema) -> None:
    expected = read_schema(current.schema)
    if not schema.equals(expected):
        raise DataError(
            f"dataset {request.name!r} has columns {_columns(expected)}, the rows to append have "
            f"{_columns(schema)}"
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
    check_replicas(replicas, current)


def check_replicas(asked: int, current: pb.DatasetLocation) -> None:
    """Refuse an append that asks for another number of replicas than there are; 0: any."""
    if asked not in (0, n_replicas(current)):
        raise ConfigError(
            f"dataset {current.name!r} has replicas={n_replicas(current)}, an append can't have "
            f"replicas={asked}; overwrite it, or leave replicas out"
        )


def _owners_of_both(current: pb.DatasetLocation, appended: pb.DatasetLocation) -> tuple[str, ...]:
    """The owners that hold the rows there are and those appended: some may have moved meanwhile."""
    same = (current.keys, n_replicas(current)) == (appended.keys, appended.replicas)
    owners = in_common(current.owners, appended.owners, appended.replicas)
    if owners is None or not same:
        raise ConfigError(
            f"dataset {current.name!r} was replaced after this append began; begin again"
        )
    return owners


def _check_parts(
    transaction: Transaction, parts: Iterable[pb.CommittedPart]
) -> list[pb.CommittedPart]:
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


def _check_same(transaction: Transaction, parts: Sequence[pb.CommittedPart]) -> None:
    """Refuse to commit again with other parts: those rows would be thought to be there.

    Fewer are fine: a task of a stream that has not heard of a commit names its part of it again.
    """
    if not set(transaction.committed).issuperset(map(_line, parts)):
        raise ConfigError(
            f"transaction {transaction.transaction} on dataset {transaction.name!r} is committed "
            "already, with other parts; a commit is repeated with the same parts, other rows need "
            "a transaction of their own"
        )


def _line(part: pb.CommittedPart) -> str:
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


def _record(location: pb.DatasetLocation) -> Write:
    return Write("datasets", location.name, location.SerializeToString(deterministic=True))


def _exists(name: str) -> ConfigError:
    return ConfigError(f"dataset {name!r} exists already; use mode 'append' or 'overwrite'")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _from_record(data: bytes) -> Transaction:
    values = json.loads(data)
    lists = ("keys", "owners", "committed")
    return Transaction(**{**values, **{name: tuple(values[name]) for name in lists}})
