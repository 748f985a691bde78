"""A task's supervision of its slot: what it prints, and what it means when it fails.

One job: `SlotSupervisor`: the prints of one task's process go to the agent's log, what happens to
the process becomes an error that names signal or code, the function that ran, its node, and what to
do, and rows that a function may have made are looked at before anything of the agent's touches
them.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from fabric.agent.attempts import TaskSpec
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.calls import Call
from fabric.agent.slot.pool import SlotLimits, SlotPool
from fabric.agent.slot.process import HangsError, SlotEndedError, SlotProcess, TooLargeError
from fabric.cancellation import Cancellation
from fabric.errors import ConfigError, ExternalError, FabricError, InternalError, UserError
from fabric.operators.functions.trust import functions_of, placed_functions
from fabric.operators.functions.user_code import number_of
from fabric.plan.nodes import KeyedProcess, Node
from fabric.plan.walk import walk
from fabric.telemetry.logs import logger

_log = logger("fabric.agent.slot")

LINES_MAX = 1000
"""Lines of one task that are logged."""
STUCK_S = 5.0
"""So long after its own timeout a call has come back, or it never will."""
_FATAL = "Fatal Python error"
STACK_LINES_MAX = 20
_OURS = re.compile(r'File ".*fabric/operators/functions/')


@contextmanager
def supervised(
    slots: SlotPool, spec: TaskSpec, root: Node, cancellation: Cancellation
) -> Iterator[SlotSupervisor]:
    """The supervisor of a slot for the task `spec`; cancelling the task kills the slot."""
    compiles = any(udf.kind == "numba" for udf in functions_of(root))
    with slots.slot(spec.id.job, compiles=compiles) as slot, cancellation.waking(slot.kill):
        yield SlotSupervisor(slot, slots.limits, spec, root)


class SlotSupervisor:
    """The slot of the task `spec`, whose stage is `root`; belongs to the task's thread."""

    def __init__(self, slot: SlotProcess, limits: SlotLimits, spec: TaskSpec, root: Node) -> None:
        self.slot, self.limits, self._root = slot, limits, root
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
            limits = self.limits
            raise too_large(
                error.taken_bytes, limits.bytes_max, self._running(), as_set=limits.is_set
            ) from None
        except SlotEndedError:
            running = self._running()
            status = self.slot.end()
            if self._dump:
                at = stack_of_function("\n".join(self._dump))
                _log.warning("a task's process crashed", **self._names, why=self._dump[0], at=at)
            raise crashed(status, running) from None
        except HangsError as error:
            running = self._function(error.call)
            _log.warning("a function hangs", **self._names, at=stack_of_function(self.slot.stack()))
            raise self._late(error, running) from None

    def receive(self) -> sp.FromSlot:
        """What the slot says next, see `SlotProcess.receive`."""
        limits = self.limits
        return self.slot.receive(limits.batch_s, limits.bytes_max, self._until_stuck_s)

    def checked(self, placed: sp.Placed, schema: pa.Schema) -> pa.RecordBatch:
        """Rows that a function may have made; what is wrong in them would kill this process."""
        batch = self.slot.channel.batch(placed)
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
        return self._function(self.slot.calls.oldest())

    def _function(self, call: Call | None) -> Function | None:
        return functions_by_number(self._root).get(call.function) if call else None


@dataclass(frozen=True, slots=True)
class Function:
    """A user's function and the node that it belongs to."""

    name: str
    node: str


def functions_by_number(root: Node) -> dict[int, Function]:
    """The functions of a stage, by the number under which calls are noted."""
    return {
        number_of(udf.payload): Function(udf.name, node.path)
        for node, udf in placed_functions(root)
    }


def crashed(status: int | None, running: Function | None) -> FabricError:
    """The error of a task whose process ended by itself.

    >>> print(crashed(int(signal.SIGSEGV), Function("f", "map")).message)
    ... # doctest: +ELLIPSIS
    the process of the task was killed by SIGSEGV (Segmentation fault) in the function f; ...
    """
    where = f" in the function {running.name}" if running else ""
    return ExternalError(
        f"the process of the task {_how(status)}{where}; {_advice(status)}",
        node=running.node if running else "",
    )


def hung(running: Function | None, batch_s: float) -> FabricError:
    """The error of a task whose function took too long for a batch, or that did nothing at all."""
    if running is None:
        return ExternalError(
            f"the process of the task did nothing for {batch_s:g} s and was stopped; the agent's "
            "log shows where it was"
        )
    return UserError(
        f"the function {running.name} took longer than {batch_s:g} s for one batch and was "
        "stopped; the agent's log shows where it was. If it may take so long, give agents a larger "
        "batch_s (FABRIC_AGENT_BATCH_S)",
        node=running.node,
    )


def timeouts(root: Node) -> dict[int, float]:
    """The limits that functions of a stage have of their own, in seconds, by number."""
    return {
        number_of(node.function.payload): node.timeout_us / 1e6
        for node in walk(root)
        if isinstance(node, KeyedProcess) and node.timeout_us
    }


def stuck(running: Function, timeout_s: float) -> FabricError:
    """The error of a task whose function took too long where Python can't end the call.

    >>> print(stuck(Function("f", "process_1"), 2.0).message)  # doctest: +ELLIPSIS
    the function f took longer than its timeout of 2 s and did not return to Python, so its ...
    """
    return UserError(
        f"the function {running.name} took longer than its timeout of {timeout_s:g} s and did not "
        "return to Python, so its process was stopped and no row could be skipped; the agent's log "
        "shows where it was",
        node=running.node,
    )


def too_large(
    taken_bytes: int, bytes_max: int, running: Function | None, *, as_set: bool = False
) -> FabricError:
    """The error of a task whose process took more than its share, or than was set for all."""
    where = f" in the function {running.name}" if running else ""
    most = "slot_memory is" if as_set else "its share of the agent's memory is"
    setting = "slot_memory (FABRIC_AGENT_SLOT_MEMORY)" if as_set else "--memory"
    return ConfigError(
        f"the process of the task had {taken_bytes >> 20} MiB{where}, and {most} "
        f"{bytes_max >> 20} MiB; let the function keep less, or give agents a larger {setting}",
        node=running.node if running else "",
    )


def stack_of_function(dump: str) -> str:
    """The frames of the user's code in a dump by faulthandler, latest first; else its first ones.

    >>> stack_of_function('''Thread 0x01 (most recent call first):
    ...   File "lib.py", line 1 in wait
    ...
    ... Current thread 0x02 (most recent call first):
    ...   File "job.py", line 7 in slow
    ...   File "/x/fabric/operators/functions/kernel.py", line 70 in run
    ... ''')
    '  File "job.py", line 7 in slow'
    """
    for block in re.split(r"\n\s*\n|(?=^Current thread|^Thread)", dump, flags=re.MULTILINE):
        lines = [line for line in block.splitlines() if line.startswith("  File")]
        ours = next((i for i, line in enumerate(lines) if _OURS.search(line)), 0)
        if ours:
            return "\n".join(lines[:ours][:STACK_LINES_MAX])
    return "\n".join(dump.splitlines()[:STACK_LINES_MAX])


def _how(status: int | None) -> str:
    if status is None:
        return "ended with the process that started it"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:  # of the real-time ones
            name = f"signal {number}"
        return f"was killed by {name} ({signal.strsignal(number)})"
    return f"ended itself with exit code {os.waitstatus_to_exitcode(status)}"


def _advice(status: int | None) -> str:
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return "somebody killed it, or the system because memory was short"
        return "the agent's log shows where; a compiled extension that the function uses is broken"
    return "the agent's log shows what it said last"
