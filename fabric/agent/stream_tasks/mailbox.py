"""What passes between a running task of a stream and its agent's thread.

`Mailbox` has the orders for the task, in order, with a wake for a task that waits, and the way
back. `Progress` turns what the task has counted into reports, once a second: they are for whoever
looks at the job, and nothing depends on one of them. How far its slowest split is, where watermarks
are aligned, goes out more often, for the other tasks wait for it; lost, it is said anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from fabric.agent.outputs import Outputs
from fabric.control import control_pb2 as pb

Say = Callable[[pb.AgentMessage], None]
Counts = Mapping[str, Mapping[str, int]]
"""By node path and name."""
EVERY_S = 1.0
SLOWEST_EVERY_S = 0.2
"""Tasks are at most `max_drift`, and what is read in so long, ahead of each other."""


Order = pb.TriggerCheckpoint | pb.CheckpointEnded | pb.SlowestSplit
"""What a coordinator says to a task: to let the barrier of a checkpoint go out from its sources,
how a checkpoint ended, and how far the slowest split is that other tasks read of a node."""


class Mailbox:
    """A mailbox with one reader; any thread may put, and any may `say`."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._waiting: deque[Order] = deque()  # its append and popleft are atomic
        self.wake: Callable[[], None] = _nobody_waits
        """Called after each put; the task sets it when it begins to wait on something."""

    def put(self, order: Order) -> None:
        """Give it to the task."""
        self._waiting.append(order)
        self.wake()

    def take(self) -> list[Order]:
        """All that came since the last call.

        >>> mailbox = Mailbox(print)
        >>> mailbox.put(pb.TriggerCheckpoint(checkpoint=1))
        >>> [order.checkpoint for order in mailbox.take()], mailbox.take()
        ([1], [])
        """
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found


def _nobody_waits() -> None:
    """The task looks by itself."""


class Progress:
    """Reports of the attempt `key`, by `say`; `began_s` is when it began."""

    def __init__(self, key: pb.TaskKey, outputs: Outputs, say: Say, began_s: float) -> None:
        self._key, self._outputs, self._say = key, outputs, say
        self._began_s = self._told_s = began_s
        self._told_slowest_s = began_s - SLOWEST_EVERY_S

    def tell(
        self,
        now_s: float,
        rows_in: int,
        written: int | None,
        watermark_us: int,
        counts: Callable[[], Counts],
    ) -> None:
        """Say it, unless that was lately; `written` None: the task has no sink."""
        if now_s - self._told_s < EVERY_S:
            return
        self._told_s = now_s
        report = pb.TaskReport(
            key=self._key,
            state=pb.TASK_RUNNING,
            rows_in=rows_in,
            seconds=now_s - self._began_s,
            watermark_us=watermark_us,
        )
        add_outputs(report, self._outputs, written)
        add_counts(report, counts())
        self._say(pb.AgentMessage(task=report))

    def tell_slowest(self, now_s: float, slowest: Callable[[], Mapping[str, int]]) -> None:
        """Say how far the slowest split of each node is, unless that was lately."""
        if now_s - self._told_slowest_s < SLOWEST_EVERY_S:
            return
        self._told_slowest_s = now_s
        for node, time_us in slowest().items():
            said = pb.SlowestSplit(key=self._key, node_path=node, time_us=time_us)
            self._say(pb.AgentMessage(slowest=said))


def add_outputs(report: pb.TaskReport, outputs: Outputs, written: int | None) -> None:
    """Rows that a task put out, or its sink has `written`, and how much of `seconds` it waited."""
    report.rows_out = outputs.rows if written is None else written
    if report.seconds > 0:
        report.backpressure_ratio = min(1.0, outputs.waited_ns / 1e9 / report.seconds)


def add_counts(report: pb.TaskReport, counts: Counts) -> None:
    """What operators have counted, by node path and name.

    >>> report = pb.TaskReport()
    >>> add_counts(report, {"by": {"late_rows": 2}})
    >>> [(each.node_path, each.name, each.n) for each in report.counts]
    [('by', 'late_rows', 2)]
    """
    for node, found in sorted(counts.items()):
        for name, n in sorted(found.items()):
            report.counts.add(node_path=node, name=name, n=n)
