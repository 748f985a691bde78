"""The database that several coordinators share: records, and the lease of the leader.

One job: `Database`, a party that may be stopped or cut off, and `SharedStore`, one term's way to
it. A write of an older epoch is refused; one whose answer is lost may have been made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.coordinator.election.election import Ask, Lease, Renew, Take
from fabric.coordinator.metadata.store import TABLES, Table, Write
from fabric.errors import FencedError, InternalError, StorageAwayError
from tests.support.sim.network import Network
from tests.support.sim.party import Party
from tests.support.sim.scenario import DATABASE as NAME
from tests.support.sim.trace import Trace


@dataclass(frozen=True, slots=True)
class AskLease:
    """A candidate asks for the lease, or prolongs it."""

    holder: str
    address: str
    lease_s: float
    ask: Ask


class Database(Party):
    """What is committed survives everything; whoever asks while it is down hears nothing."""

    def __init__(self, network: Network, trace: Trace) -> None:
        super().__init__(NAME, network.scheduler, trace)
        self.network = network
        self.tables: dict[Table, dict[str, bytes]] = {table: {} for table in TABLES}
        self.epoch = 0
        self._holder = self._address = ""
        self._renewals, self._ends_s = 0, 0.0

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Answer an `AskLease` with the lease as it is then."""
        if not isinstance(request, AskLease):
            raise InternalError(f"nobody answers {request}")
        now, ends_s = self.scheduler.now, self.scheduler.now + request.lease_s
        match request.ask:
            case Take(stale=stale):
                mine = self._holder == request.holder
                if self._ends_s <= now or mine or stale == (self.epoch, self._renewals):
                    self.epoch, self._renewals, self._ends_s = self.epoch + 1, 0, ends_s
                    self._holder, self._address = request.holder, request.address
            case Renew(epoch=epoch):
                if (epoch, request.holder) == (self.epoch, self._holder):
                    self._renewals, self._ends_s = self._renewals + 1, ends_s
        left_s = self._ends_s - now
        answer(Lease(self.epoch, self._holder, self._address, self._renewals, left_s))


class SharedStore:
    """See `MetadataStore`: that of coordinator `who` in the term of `epoch`."""

    def __init__(self, database: Database, who: str, epoch: int) -> None:
        self._database, self._who, self._epoch = database, who, epoch
        self._reach()
        self.fence()

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`."""
        self._reach()
        self.fence()
        for write in writes:
            table = self._database.tables[write.table]
            if write.value is None:
                table.pop(write.key, None)
            else:
                table[write.key] = write.value
        self._hear()

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        self._reach()
        found = sorted(self._database.tables[table].items())
        self._hear()
        return iter(found)

    def next_epoch(self) -> int:
        """The epoch comes with the lease."""
        return self._epoch

    def close(self) -> None:
        """Nothing is kept open."""

    def _reach(self) -> None:
        database = self._database
        cut = database.network.blocked(self._who, NAME, "control")
        if cut or not database.alive or database.paused:
            raise StorageAwayError("the database does not answer; nothing was written")

    def _hear(self) -> None:
        if self._database.network.blocked(NAME, self._who, "control"):
            raise StorageAwayError("the database does not answer; it may have written")

    def fence(self) -> None:
        """Raises `FencedError` once another term has begun."""
        if self._epoch != self._database.epoch:
            raise FencedError(f"epoch {self._epoch} is over, {self._database.epoch} began")
