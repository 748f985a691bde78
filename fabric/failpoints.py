"""Named places in a process where a test can make it die, stop or fail.

One job: `arm` reads ``FABRIC_FAILPOINT=name:nth:action`` when a coordinator or an agent starts,
`reach` is called at the places. The nth time that the process comes by the named one, it

    exit     ends at once, as by SIGKILL (code 137)
    raise    raises an `ExternalError`
    hang     stays there for ever; the other threads go on
    sleep=S  stays there for S seconds
    stop     stops the whole process (SIGSTOP) until somebody continues it

and prints ``failpoint NAME: ACTION`` before. Where several processes have the same failpoint, only
the first of them that gets so far does it, if ``FABRIC_FAILPOINT_ONCE`` names a file that is not
there yet. Without the variable `reach` compares one name with None. Nothing works unless
``FABRIC_TESTING=1`` is set too: a variable left over somewhere must not kill a process that people
use.
"""

from __future__ import annotations

import difflib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fabric.errors import ConfigError, ExternalError

VARIABLE, TESTING, ONCE = "FABRIC_FAILPOINT", "FABRIC_TESTING", "FABRIC_FAILPOINT_ONCE"

POINTS = {
    "agent.attaching": "said hello, has not taken what came back; nth 2 is a re-registration",
    "agent.task-started": "a task's thread begins",
    "agent.output-sealed": "a task's output is sealed, nobody knows",
    "agent.sink-prepared": "a task's part of a sink is durable, nobody knows",
    "agent.task-ran": "a task is done, its report was not sent",
    "agent.publishing": "told to publish a sink, nothing done",
    "agent.published": "a sink is published, its report was not sent",
    "agent.turning": "the agent's thread has something to do, nothing was done",
    "file.opening": "a file of a source is about to be opened, as on a mount that may hang",
    "agent.put-batch": "a batch of a put to this owner was taken, more may come",
    "agent.put-sealed": "a put to this owner is durable, nobody knows",
    "stream.barrier-came": "every channel of a task has come to a barrier, nothing was done",
    "stream.barrier-sent": "a task's state was taken, its barrier went on",
    "stream.rows-came": "rows of an edge have come to a task, nothing was done with them",
    "stream.sink-prepared": "what a task put out up to a barrier is durable, nobody knows",
    "stream.snapshot-storing": "a task's state is written, not known to be durable",
    "stream.snapshot-stored": "a task's state is durable, nobody knows",
    "stream.restoring": "a task goes on from a checkpoint, has read nothing of it yet",
    "stream.state-restored": "a task's operators have their state back, nothing else has",
    "stream.restored": "a task has its state back, its sources are at their beginning",
    "stream.told-complete": "a task is told that a checkpoint is complete, nothing was done",
    "stream.publishing": "a file of a complete checkpoint is seen, that it is was not written down",
    "stream.merging": "small files of checkpoints were merged, they are still there",
    "kafka.begun": "a transaction with a checkpoint's records is begun, nothing was sent",
    "kafka.flushed": "brokers have all records of a transaction, it is not committed",
    "kafka.committed": "a transaction is committed, nobody knows",
    "postgres.copied": "a task's rows are copied to a database, not committed there",
    "postgres.moved": "staged rows and their marker are in their tables, not committed",
    "postgres.committed": "staged rows are in their table for good, nobody knows",
    "checkpoint.begun": "a checkpoint's number is written down, no task was told",
    "checkpoint.acknowledged": "every task has its part, no manifest was written",
    "checkpoint.stored": "the manifest is durable, that it is was not written down",
    "checkpoint.complete": "a checkpoint is written down as complete, no task was told",
    "checkpoint.publishing": "a checkpoint is complete, no sink was asked to publish it",
    "checkpoint.published": "a sink says that it has published, nothing was made of it",
    "checkpoint.removing": "checkpoints that are too old are about to be removed",
    "checkpoint.half-removed": "the manifest of one that is too old is gone, its files are not",
    "checkpoint.verified": "the checkpoint to go on from is whole, nobody was told",
    "coordinator.job-persisted": "a job is written down, its client was not answered",
    "coordinator.tasks-persisted": "tasks are written down, nothing was sent",
    "coordinator.sending": "an order for an agent is about to be sent",
    "coordinator.restoring": "a restarted coordinator has read its store, done nothing yet",
    "coordinator.committing": "a dataset's commit is decided, not written down",
    "coordinator.committed": "a dataset's commit is written down, nobody was told",
}
"""Every place, and what is true there."""

ACTIONS = ("exit", "raise", "hang", "sleep", "stop")


@dataclass(frozen=True, slots=True)
class Failpoint:
    """What happens the `nth` time at `name`."""

    name: str
    nth: int
    action: str
    seconds: float = 0.0
    once: str = ""
    times: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def hit(self) -> None:
        """One more time; `itertools.count` is moved under the GIL, so any thread may come by."""
        if next(self.times) != self.nth or not self._first():
            return
        sys.stderr.write(f"failpoint {self.name}: {self.action}\n")  # in one piece, as logs are
        sys.stderr.flush()
        match self.action:
            case "exit":
                os._exit(137)
            case "raise":
                raise ExternalError(f"failpoint {self.name}")
            case "hang":
                threading.Event().wait()
            case "sleep":
                time.sleep(self.seconds)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)

    def _first(self) -> bool:
        """Whether no other process has done it; from now on, this one has."""
        try:
            if self.once:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True


_armed: Failpoint | None = None


def arm(environ: Mapping[str, str] | None = None) -> None:
    """Take the failpoint that the environment names; `ConfigError` when it names none of ours.

    >>> arm({"FABRIC_FAILPOINT": "agent.task-rann:1:exit", "FABRIC_TESTING": "1"})
    Traceback (most recent call last):
    ...
    fabric.errors.ConfigError: there is no failpoint 'agent.task-rann'; did you mean agent.task-ran?
    """
    global _armed
    environ = os.environ if environ is None else environ
    text = environ.get(VARIABLE, "")
    if text and environ.get(TESTING) != "1":
        raise ConfigError(
            f"{VARIABLE} is set, which makes this process fail on purpose; unset it, or set "
            f"{TESTING}=1 if this is a test"
        )
    _armed = replace(parse(text), once=environ.get(ONCE, "")) if text else None


def armed() -> bool:
    """Whether this process has a failpoint."""
    return _armed is not None


def parse(text: str) -> Failpoint:
    """Read ``name:nth:action``.

    >>> found = parse("agent.published:2:sleep=1.5")
    >>> found.name, found.nth, found.action, found.seconds
    ('agent.published', 2, 'sleep', 1.5)
    """
    name, _, rest = text.partition(":")
    nth, _, action = rest.partition(":")
    action, _, seconds = action.partition("=")
    if name not in POINTS:
        near = difflib.get_close_matches(name, POINTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"there is no failpoint {name[:80]!r}{hint}")
    try:
        point = Failpoint(name, int(nth), action, float(seconds or 0))
    except ValueError:
        point = Failpoint(name, 0, action)
    if point.nth < 1 or action not in ACTIONS or (action == "sleep") != (point.seconds > 0):
        raise ConfigError(
            f"{VARIABLE} must be name:nth:action, nth from 1 and the action one of exit, raise, "
            f"hang, sleep=SECONDS, stop; got {text[:80]!r}"
        )
    return point


def reach(name: str) -> None:
    """This process has come by `name`."""
    if _armed is not None and _armed.name == name:
        _armed.hit()
