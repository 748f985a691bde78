"""What answers at a coordinator's servers: whoever leads, here or elsewhere.

One job: `Front`, whose calls go to the runtime of the term, or to a `Standby` that refuses each of
them with `NotLeaderError`, which tells where the leader is, so that whoever asked can go there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.errors import NotLeaderError


class Standby:
    """Refuses all that a `CoordinatorRuntime` would answer; `leader` gives an address, or ""."""

    def __init__(self, leader: Callable[[], str]) -> None:
        self._leader = leader

    def __getattr__(self, call: str) -> Callable[..., NoReturn]:
        return self._refuse

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        leader = self._leader()
        where = f"the leader is at {leader}" if leader else "nobody leads at the moment"
        error = NotLeaderError(f"this coordinator is not the leader; {where}")
        error.leader = leader
        raise error


class Front:
    """Passes every call on to `current`, which may change at any time.

    What takes more than one call (a watch, an agent's link) must stay with one `current`.
    """

    def __init__(self, current: CoordinatorRuntime | Standby) -> None:
        self.current: Any = current
        self.on_deposed: Callable[[int], None] | None = None

    def __getattr__(self, call: str) -> Any:
        return getattr(self.current, call)

    def depose(self, epoch: int) -> None:
        """Another coordinator says that it leads; nothing to one that is alone."""
        if self.on_deposed is not None:
            self.on_deposed(epoch)
