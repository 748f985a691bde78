"""Who of several coordinators leads: one candidate's view, as a state machine.

One job: `Election`. Coordinators share a lease with an epoch that rises whenever it changes hands.
A standby asks for it a few times a lease, and gets it when it has ended by the store's own clock,
or when nobody has renewed it for a whole lease by the candidate's clock. A leader renews it. When
it can't, it goes on until `grace_s` after the end of the lease, counted from when it *asked* for
the last renewal: without the store all it does is to listen. That is safe for any time: the store
takes no write of an older epoch, and agents obey none. When the store was away for everybody, a
standby leaves the leader a lease's time to renew first. Nothing here knows the time of day.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as the store has it; by the store's clock it ends in `left_s`."""

    epoch: int
    holder: str
    address: str
    renewals: int
    left_s: float


@dataclass(frozen=True, slots=True)
class Take:
    """Take the lease if it has ended, was ours, or is `stale`: still at this epoch and renewal."""

    stale: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Renew:
    """Prolong the lease of this epoch if it is still ours."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Look:
    """Only say how the lease is."""


Ask = Take | Renew | Look


class Election:
    """The candidate `holder`; `now` is always its own monotonic clock. Not thread-safe."""

    def __init__(self, holder: str, lease_s: float, grace_s: float) -> None:
        self._holder, self._lease_s, self._grace_s = holder, lease_s, grace_s
        self._epoch = 0
        self.due = 0.0
        """When the store is to be asked next."""
        self._good_until = 0.0
        self._seen: Lease | None = None
        self._seen_since = 0.0
        self.predecessor = ""
        """The address of whoever led before this candidate does, if that was another one."""
        self._patient_until = 0.0

    @property
    def leader(self) -> str:
        """The address of whoever leads, as far as this candidate knows; "" when nobody does."""
        seen = self._seen
        if seen is None or seen.left_s <= 0 or (seen.holder == self._holder and not self._epoch):
            return ""
        return seen.address

    def leads(self, now: float) -> int:
        """The epoch with which this candidate leads, or 0."""
        if self._epoch and now >= self._good_until + self._grace_s:
            self._epoch = 0
        return self._epoch

    def doubtful(self, now: float) -> bool:
        """Whether it leads, but somebody else may have the lease by now."""
        return bool(self.leads(now)) and now >= self._good_until

    def ask(self, now: float) -> Ask:
        """What to ask the store now; the next time is due in a third of a lease."""
        self.due = now + self._lease_s / 3
        if epoch := self.leads(now):
            return Renew(epoch)
        if now < self._patient_until:
            return Look()
        seen = self._seen
        if seen is not None and now - self._seen_since > self._lease_s:
            return Take((seen.epoch, seen.renewals))
        return Take(None)

    def answered(self, ask: Ask, lease: Lease, asked: float, now: float) -> None:
        """The store's answer to what was asked at `asked`: the lease as it is then."""
        known, self._seen = self._seen, lease
        if known is None or (known.epoch, known.renewals) != (lease.epoch, lease.renewals):
            self._seen_since = now
        if known is not None and known.epoch != lease.epoch:
            self.predecessor = known.address if known.address != lease.address else ""
        mine = lease.holder == self._holder and (
            isinstance(ask, Take)
            # An answer that comes when the term has ended begins no other one of that epoch.
            or (isinstance(ask, Renew) and ask.epoch == lease.epoch == self.leads(now))
        )
        if mine:
            self._epoch, self._good_until = lease.epoch, asked + self._lease_s
        elif lease.epoch > self._epoch or lease.holder != self._holder:
            self._epoch = 0

    def failed(self, now: float) -> None:
        """The store did not answer."""
        self._patient_until = now + self._lease_s

    def told(self, epoch: int) -> None:
        """Somebody says that another one leads with `epoch`: the store is asked at once."""
        if epoch > self._epoch:
            self.due = 0.0

    def deposed(self, epoch: int) -> None:
        """The store says that somebody leads with `epoch`."""
        if epoch > self._epoch:
            self._epoch = 0
