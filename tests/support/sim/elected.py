"""One of several simulated coordinators: standby until elected, leader, standby again.

One job: what `coordinator/election/candidate.py` and `elector.py` do, in simulated time, around
the real `Election`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.election.election import Ask, Lease
from fabric.errors import FencedError, NotLeaderError, StorageError
from tests.support.sim.coordinator import CoordinatorProcess
from tests.support.sim.database import AskLease, Database
from tests.support.sim.invariants import Invariants
from tests.support.sim.network import Network
from tests.support.sim.parts import Parts
from tests.support.sim.scenario import DATABASE as NAME
from tests.support.sim.trace import Trace

POLL_S = 0.2
ASK_S = 2.0


class ElectedCoordinator(CoordinatorProcess):
    """A candidate; each term begins by reading what is written down."""

    def __init__(
        self,
        name: str,
        network: Network,
        trace: Trace,
        *,
        config: CoordinatorConfig,
        parts: Parts,
        database: Database,
        invariants: Invariants,
    ) -> None:
        super().__init__(
            name,
            network.scheduler,
            trace,
            config=config,
            parts=parts,
            disk=None,
            invariants=invariants,
        )
        self._network, self._database = network, database

    def boot(self) -> None:
        """See `Party.boot`."""
        self.reset()
        self._holder = f"{self.name}.{self.life}"
        config = self._config
        self._election = self._parts.election(self._holder, config.lease_s, config.lease_grace_s)
        self._stand()
        self._poll()

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """See `CoordinatorProcess.serve`; who does not lead says so."""
        if isinstance(request, Depose):
            self._election.told(request.epoch)
            answer(None)
        elif self.core is None:
            raise NotLeaderError(f"{self.name} does not lead")
        else:
            super().serve(request, answer)

    def gives_up(self, error: StorageError) -> None:
        """See `CoordinatorProcess.gives_up`: the term is over, not the process."""
        if self.core is not None:
            self._election.deposed(self.core.epoch + (1 if isinstance(error, FencedError) else 0))
            self.end_term(error.message)

    # ---- the election

    def _stand(self) -> None:
        asked = self.monotonic_s()
        ask = self._election.ask(asked)
        request = AskLease(self._holder, self.name, self._config.lease_s, ask)

        def answered(value: Any) -> None:
            if isinstance(value, Lease):
                self._hear(ask, value, asked)
            self.after(max(0.0, self._election.due - self.monotonic_s()), self._stand)

        self._network.call(self, NAME, "control", request, answered, timeout_s=ASK_S)

    def _hear(self, ask: Ask, lease: Lease, asked: float) -> None:
        self._election.answered(ask, lease, asked, self.monotonic_s())
        self._look()

    def _poll(self) -> None:
        self._look()
        self.after(POLL_S, self._poll)

    def _look(self) -> None:
        """Begin a term, or end one."""
        epoch = self._election.leads(self.monotonic_s())
        if self.core is not None and self.core.epoch != epoch:
            self.end_term("it leads no more")
        if self.core is None and epoch:
            try:
                self.begin_term(self._parts.shared(self._database, self.name, epoch), epoch)
            except FencedError:
                self._election.deposed(epoch + 1)
            except StorageError as error:
                self.say(f"can't begin its term: {error}")
            else:
                self._tell(epoch)

    def _tell(self, epoch: int) -> None:
        """Tell the leader before, which may not know."""
        before = self._election.predecessor
        if before and before != self.name:
            told = Depose(epoch)
            self._network.call(self, before, "control", told, lambda _: None, timeout_s=ASK_S)


class Depose:
    """Says who leads now."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
