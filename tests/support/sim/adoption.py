"""A simulated agent fetches sealed output that another one holds.

One job: `Adoption`, what `fabric.agent.transfers` does: every partition of what one attempt wrote,
under the same names; nothing of it is left when that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.agent.events import Fetched
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import FabricError
from tests.support.sim.rows import Partitions, Row
from tests.support.sim.shelf import Place, Read

if TYPE_CHECKING:
    from tests.support.sim.agent import AgentProcess

FETCH_S = 3.0


class Adoption:
    """One `Adopt`."""

    def __init__(self, agent: AgentProcess, adopt: pb.Adopt) -> None:
        self._agent, self._adopt = agent, adopt
        self._rows: dict[int, list[tuple[Row, ...]]] = {e.edge: [] for e in adopt.outputs}

    def start(self) -> None:
        """Begin with the first partition."""
        self._agent.say(f"fetches {self._adopt.stage}.{self._adopt.task} of {self._adopt.job_id}")
        left = [(e.edge, p) for e in self._adopt.outputs for p in range(e.n_partitions)]
        self._next(left)

    def _next(self, left: list[tuple[int, int]]) -> None:
        if not left:
            self._done()
            return
        edge, partition = left[0]

        def answered(value: Any) -> None:
            if isinstance(value, FabricError):
                error = to_detail(value)
                self._agent.handle(Fetched(self._adopt, error=error))
                return
            self._rows[edge].append(value.rows)
            self._next(left[1:])

        self._agent.network.call(
            self._agent,
            self._adopt.from_agent,
            "data",
            Read(self._place(edge), partition),
            answered,
            timeout_s=FETCH_S,
        )

    def _done(self) -> None:
        totals = []
        for edge, parts in self._rows.items():
            place, partitions = self._place(edge), tuple(parts)
            self._keep(place, partitions)
            n_rows = sum(map(len, partitions))
            totals.append(pb.EdgeTotals(edge=edge, rows=n_rows, bytes=10 * n_rows))
        self._agent.handle(Fetched(self._adopt, tuple(totals)))

    def _keep(self, place: Place, partitions: Partitions) -> None:
        shelf = self._agent.shelf
        shelf.begin(place, len(partitions))
        shelf.append(place, partitions)
        shelf.seal(place)
        self._agent.invariants.sealed(place, partitions)

    def _place(self, edge: int) -> Place:
        adopt = self._adopt
        return Place(adopt.job_id, edge, adopt.task, adopt.attempt)
