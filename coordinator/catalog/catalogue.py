"""The dataset catalogue: which datasets exist, and the open transactions on them.

`Catalogue` begins, commits, aborts, drops and lists as pure state changes. Every change comes back
as the records to write first; the rows themselves lie with the owners (`fabric.io.dataset`). A
commit publishes just the attempts it lists, all at once, and may be repeated.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.datasets import is_kept, job_of, n_replicas
from fabric.coordinator.catalog.replicas import spread_out
from fabric.coordinator.catalog.transactions import (
    Transaction,
    check_append,
    check_begin,
    check_parts,
    check_same,
    owners_of_both,
    part_line,
    read_schema,
    transaction_of,
)
from fabric.coordinator.catalog.views import shown
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.submit.idempotency import check_key
from fabric.errors import ConfigError, NotFoundError, PeerLostError

ROWS_MAX = (1 << 63) - 1


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
        self._transactions = {key: transaction_of(value) for key, value in transactions}

    def find(self, name: str) -> pb.DatasetLocation | None:
        """The dataset `name`, if there is one."""
        return self._datasets.get(name)

    def get(self, name: str) -> pb.DatasetLocation:
        """The dataset `name`; `NotFoundError` when there is none."""
        found = self._datasets.get(name)
        if found is None:
            known = ", ".join(sorted(self._datasets)[:10]) or "none yet"
            raise NotFoundError(f"there is no dataset {name[:128]!r}; known: {known}")
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
        schema, keys = check_begin(request)
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
        parts = check_parts(transaction, request.parts)
        if transaction.version:
            check_same(transaction, parts)
            known = self._datasets.get(transaction.name)
            return known or transaction.location(), [], None
        current = self._datasets.get(transaction.name)
        if transaction.mode == "create" and current is not None:
            raise _exists(transaction.name)
        location = transaction.location()
        location.version = 1 + (current.version if current is not None else 0)
        location.made_by = "" if transaction.subject else transaction.idempotency_key
        if transaction.mode == "append" and current is not None:
            location.owners[:] = owners_of_both(current, location)
            location.made_by = current.made_by
            location.parts.extend(current.parts)
        location.parts.extend(parts)
        location.rows = sum(part.rows for part in location.parts)
        if location.rows > ROWS_MAX:
            raise ConfigError(
                f"dataset {location.name!r} would have {location.rows} rows, at most {ROWS_MAX} "
                "can be counted"
            )
        done = replace(
            transaction, version=location.version, committed=tuple(map(part_line, parts))
        )
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
        location = _copy(self.get(name))
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
                location = _copy(found)
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
            check_append(request, current, schema)
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


def _record(location: pb.DatasetLocation) -> Write:
    return Write("datasets", location.name, location.SerializeToString(deterministic=True))


def _copy(location: pb.DatasetLocation) -> pb.DatasetLocation:
    """A copy that may be changed; a location that was handed out never changes."""
    copy = pb.DatasetLocation()
    copy.CopyFrom(location)
    return copy


def _exists(name: str) -> ConfigError:
    return ConfigError(f"dataset {name!r} exists already; use mode 'append' or 'overwrite'")
