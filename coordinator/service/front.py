"""What answers at a coordinator's servers: whoever leads, here or elsewhere.

`Front` passes verbs on to the runtime of the term. A `Standby` in its place refuses them with
`NotLeaderError`, which tells where the leader is, so that whoever asked can go there. `Parts` is
what a coordinator and its servers are made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from google.protobuf.message import Message

from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi, Reply, answer
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.log import Log
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.errors import NotLeaderError
from fabric.security.tokens import Signer


@dataclass(frozen=True, slots=True)
class Parts:
    """What a coordinator process and its servers are made with."""

    config: CoordinatorConfig
    signer: Signer
    clock: Clock
    log: Log


class Standby:
    """A coordinator that does not lead; `leader` gives the address of the one that does, or ""."""

    def __init__(self, leader: Callable[[], str]) -> None:
        self._leader = leader

    def refusal(self) -> NotLeaderError:
        """What everybody is told who asks here."""
        leader = self._leader()
        where = f"the leader is at {leader}" if leader else "nobody leads at the moment"
        error = NotLeaderError(f"this coordinator is not the leader; {where}")
        error.leader = leader
        return error


class Front(ControlApi):
    """Passes every verb on to `current`, which may change at any time.

    What takes more than one call (a watch, an agent's link) must stay with one `runtime`.
    """

    def __init__(self, current: CoordinatorRuntime | Standby) -> None:
        self.current = current
        self.on_deposed: Callable[[int], None] | None = None

    @property
    def runtime(self) -> CoordinatorRuntime:
        """The runtime that leads; `NotLeaderError` when none does."""
        if isinstance(self.current, Standby):
            raise self.current.refusal()
        return self.current

    @property
    def epoch(self) -> int:
        """See `CoordinatorRuntime`."""
        return self.runtime.epoch

    @property
    def refused(self) -> dict[str, int]:
        """See `CoordinatorRuntime`."""
        return self.runtime.refused

    def check(self) -> None:
        """See `CoordinatorRuntime`."""
        self.runtime.check()

    def call(self, verb: str, request: Message, reply: type[Reply]) -> Reply:
        """See `ControlApi.call`."""
        return answer(self.runtime, verb, request, reply)

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi.watch`."""
        return self.runtime.watch(request)

    def depose(self, request: pb.Leadership) -> pb.Leadership:
        """See `ControlApi.depose`; nothing to a coordinator that is alone."""
        if self.on_deposed is not None:
            self.on_deposed(request.epoch)
        return request
