"""The election carried out: a thread that asks the store when it is time.

One job: `Elector`. A store that hangs can't keep a leader in office: whether it leads is a matter
of the clock, which `leads` looks at, whatever the thread waits for.
"""

from __future__ import annotations

import threading
from typing import Protocol

from fabric.clock import Clock
from fabric.coordinator.election.election import Ask, Election, Lease
from fabric.coordinator.runtime.log import Log
from fabric.errors import StorageError

POLL_S = 0.2


class LeaseStore(Protocol):
    """Where the lease lies."""

    def ask(self, ask: Ask) -> Lease:
        """Do it, and say how the lease is then; or `StorageError`."""

    def release(self, epoch: int) -> None:
        """Let others have it at once."""


class Elector:
    """A candidate; `start` it, then look at `leads` and `wait` for changes."""

    def __init__(self, lease: LeaseStore, election: Election, clock: Clock, log: Log) -> None:
        self._lease, self._election, self._clock, self._log = lease, election, clock, log
        self._changed = threading.Condition()
        self._told: tuple[int, str] = (0, "")
        self._away = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Stand for election."""
        self._thread.start()

    def leads(self) -> int:
        """The epoch with which this process leads now, or 0."""
        with self._changed:
            return self._election.leads(self._clock.monotonic_s())

    @property
    def leader(self) -> str:
        """The address of whoever leads, or ""."""
        with self._changed:
            return self._election.leader

    @property
    def predecessor(self) -> str:
        """The address of whoever led before this process did, or ""."""
        with self._changed:
            return self._election.predecessor

    def told(self, epoch: int) -> None:
        """Somebody says that another one leads; whether it does the store knows."""
        with self._changed:
            self._election.told(epoch)
            self._changed.notify_all()

    def deposed(self, epoch: int) -> None:
        """The store says that somebody leads with a higher epoch."""
        with self._changed:
            self._election.deposed(epoch)
            self._changed.notify_all()

    def wait(self, seconds: float = POLL_S) -> None:
        """Until something may have changed, or so long."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """Give the lease back if it is ours, and stop; may be called again."""
        with self._changed:
            epoch = self._election.leads(self._clock.monotonic_s())
            self._election.deposed(epoch + 1)
            was_closed, self._closed = self._closed, True
            self._changed.notify_all()
        if was_closed:
            return
        if self._thread.is_alive():
            self._thread.join()
        if epoch:
            try:
                self._lease.release(epoch)
            except StorageError as error:
                self._log("lease not given back", {"epoch": epoch, "error": str(error)})

    def _run(self) -> None:
        while True:
            with self._changed:
                due_s = self._election.due - self._clock.monotonic_s()
                if due_s > 0 and not self._closed:
                    self._changed.wait(due_s)
                    continue
                if self._closed:
                    return
                asked = self._clock.monotonic_s()
                ask = self._election.ask(asked)
            self._ask(ask, asked)

    def _ask(self, ask: Ask, asked: float) -> None:
        try:
            lease = self._lease.ask(ask)
        except StorageError as error:
            if not self._away:
                self._log("lease not reached", {"error": str(error)})
            self._away = True
            with self._changed:
                self._election.failed(self._clock.monotonic_s())
            return
        with self._changed:
            if self._closed:
                return
            self._away = False
            self._election.answered(ask, lease, asked, self._clock.monotonic_s())
            self._changed.notify_all()
            told = (lease.epoch, lease.address)
        if told != self._told:
            self._told = told
            self._log("leader", {"epoch": lease.epoch, "address": lease.address})
