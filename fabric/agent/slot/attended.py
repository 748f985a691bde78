"""What a task's slot says, and what it means when the slot fails it.

One job: `Attended`: the prints of one task's process go to the agent's log, what happens to it
becomes an error that names the function, and rows that a function may have made are looked at
before anything of the agent's touches them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from fabric.agent.held import TaskSpec
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.calls import Call
from fabric.agent.slot.endings import (
    Function,
    crashed,
    functions_by_number,
    hung,
    stack_of_function,
    stuck,
    timeouts,
    too_large,
)
from fabric.agent.slot.pool import SlotLimits
from fabric.agent.slot.process import HangsError, SlotEndedError, SlotProcess, TooLargeError
from fabric.errors import FabricError, InternalError, UserError
from fabric.plan.nodes import Node
from fabric.telemetry.logs import logger

_log = logger("fabric.agent.slot")

LINES_MAX = 1000
"""Lines of one task that are logged."""
STUCK_S = 5.0
"""So long after its own timeout a call has come back, or it never will."""
_FATAL = "Fatal Python error"


class Attended:
    """The slot of the task `spec`, whose stage is `root`; belongs to the task's thread."""

    def __init__(self, slot: SlotProcess, limits: SlotLimits, spec: TaskSpec, root: Node) -> None:
        self._slot, self._limits, self._root = slot, limits, root
        self._timeouts = timeouts(root)
        self._until_stuck_s = {number: s + STUCK_S for number, s in self._timeouts.items()}
        self._names = {"job": spec.id.job, "task": str(spec.id)}
        self._n_lines = 0
        self._dump: list[str] = []
        """What Python's fault handler says."""
        slot.output.listener = self._hear

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """What happens to the slot meanwhile is raised as an error of the task."""
        try:
            yield
        except TooLargeError as error:
            limits = self._limits
            raise too_large(
                error.taken_bytes, limits.bytes_max, self._running(), as_set=limits.is_set
            ) from None
        except SlotEndedError:
            running = self._running()
            status = self._slot.end()
            if self._dump:
                at = stack_of_function("\n".join(self._dump))
                _log.warning("a task's process crashed", **self._names, why=self._dump[0], at=at)
            raise crashed(status, running) from None
        except HangsError as error:
            running = self._function(error.call)
            _log.warning(
                "a function hangs", **self._names, at=stack_of_function(self._slot.stack())
            )
            raise self._late(error, running) from None

    def receive(self) -> sp.FromSlot:
        """What the slot says next, see `SlotProcess.receive`."""
        limits = self._limits
        return self._slot.receive(limits.batch_s, limits.bytes_max, self._until_stuck_s)

    def checked(self, placed: sp.Placed, schema: pa.Schema) -> pa.RecordBatch:
        """Rows that a function may have made; what is wrong in them would kill this process."""
        batch = self._slot.channel.batch(placed)
        found = batch.schema
        if found.names != schema.names or found.types != schema.types:
            raise InternalError(f"the stage makes {schema}, its slot made {found}")
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise UserError(
                f"a function made an array that is not valid: {str(error)[:300]}; make arrays with "
                "pyarrow.array or pyarrow.compute"
            ) from None
        return batch

    def _hear(self, line: str) -> None:
        if (self._dump or line.startswith(_FATAL)) and len(self._dump) < LINES_MAX:
            self._dump.append(line)
            return
        self._n_lines += 1
        if self._n_lines <= LINES_MAX:
            _log.info("a function says", **self._names, text=line)
        elif self._n_lines == LINES_MAX + 1:
            _log.info("a function says more, which is left out", **self._names)

    def _late(self, error: HangsError, running: Function | None) -> FabricError:
        limit_s = self._timeouts.get(error.call.function) if error.call else None
        if running is None or limit_s is None:
            return hung(running, error.limit_s)
        return stuck(running, limit_s)

    def _running(self) -> Function | None:
        """The function that runs now."""
        return self._function(self._slot.calls.oldest())

    def _function(self, call: Call | None) -> Function | None:
        return functions_by_number(self._root).get(call.function) if call else None
