"""A job over streams, as benches run it: in a session of this process, or on two warm agents.

One job: `StreamRun`, which times all rows, and how long a job takes to start and end.
"""

from __future__ import annotations

import atexit
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar, Self

from bench.harness import Answer, Case
from bench.latencies.windows import cpu_s

if TYPE_CHECKING:
    import fabric
    from fabric.clients.session.session import Session
    from fabric.config import StateBackend

N_AGENTS = 2


class StreamRun(ABC):
    """One case; `used` gives the processor time that its engine has used until now."""

    STATE: ClassVar[StateBackend] = "memory"
    """Where the state of all steps lies."""

    def __init__(
        self, case: Case, session: Session, used: Callable[[], float], stack: ExitStack
    ) -> None:
        session.checkpoints(state=self.STATE)
        self._case, self._session, self._used, self._stack = case, session, used, stack
        self._all, self._few = self._frames()
        self._start_s = self._cpu_s = 0.0

    @classmethod
    def embedded(cls, case: Case) -> Self:
        """In a session of this process."""
        import fabric

        stack = ExitStack()
        session = stack.enter_context(fabric.connect(parallelism=case.parameters["cores"]))
        return cls(case, session, time.process_time, stack)

    @classmethod
    def on_agents(cls, case: Case) -> Self:
        """On two agents, each of which may use all cores."""
        import fabric

        address, token, processes = _agents()
        where, cores = f"fabric://{address}", case.parameters["cores"]
        stack = ExitStack()
        session = stack.enter_context(fabric.connect(where, token=token, parallelism=cores))
        return cls(case, session, partial(cpu_s, processes), stack)

    @abstractmethod
    def _frames(self) -> tuple[fabric.DataFrame, fabric.DataFrame]:
        """The job over all rows, and one over few."""

    @abstractmethod
    def answer(self) -> Answer:
        """What is found, and what it costs."""

    def work(self) -> object:
        """One job over all rows."""
        before = self._used()
        self._write(self._all)
        self._cpu_s = self._used() - before
        return None

    def beside(self) -> None:
        """Start and end a job."""
        begin = time.perf_counter()
        self._write(self._few)
        self._start_s = time.perf_counter() - begin

    def close(self) -> None:
        """End the session."""
        self._stack.close()

    def _write(self, frame: fabric.DataFrame) -> None:
        from fabric import streams

        frame.write_stream(streams.to_blackhole()).wait(progress=False)


@cache
def _agents() -> tuple[str, str, list[int]]:
    """Address, token and process ids of a fabric that ends with this process."""
    from tests.support.local import local_fabric

    stack = ExitStack()
    local = stack.enter_context(local_fabric(N_AGENTS, slots=4))
    atexit.register(stack.close)  # before what it needs closes at the end itself
    return local.address, local.token, [agent.process.pid for agent in local.agents]
