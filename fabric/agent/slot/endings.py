"""What it means that a slot ended, or did not.

One job: errors that name signal or code, the function that ran, its node, and what to do.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass

from fabric.errors import ConfigError, ExternalError, FabricError, UserError
from fabric.operators.functions.trust import placed_functions
from fabric.operators.functions.watched import number_of
from fabric.plan.nodes import KeyedProcess, Node
from fabric.plan.walk import walk

STACK_LINES_MAX = 20
_OURS = re.compile(r'File ".*fabric/operators/functions/')


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
