"""What the tasks of an agent have done so far, by job and node.

One job: `TaskTally`, told once a task, when it has ended. Numbers of a job go when it is released;
of the newest `JOBS_MAX` jobs at most there are any.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.control import control_pb2 as pb

JOBS_MAX, NODES_MAX = 50, 200
BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)


@dataclass(slots=True)
class NodeTally:
    """The ended tasks of one node of one job."""

    rows_in: int = 0
    rows_out: int = 0
    backpressure_ratio: float = 0.0
    """The worst of any task."""
    seconds: float = 0.0
    in_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))

    def add(self, report: pb.TaskReport) -> None:
        """Count one task."""
        self.rows_in += report.rows_in
        self.rows_out += report.rows_out
        self.backpressure_ratio = max(self.backpressure_ratio, report.backpressure_ratio)
        self.seconds += report.seconds
        slower = (at for at, most in enumerate(BUCKETS_S) if report.seconds <= most)
        self.in_bucket[next(slower, len(BUCKETS_S))] += 1


class TaskTally:
    """Any thread may call.

    >>> tally = TaskTally()
    >>> key = pb.TaskKey(job_id="job-1")
    >>> tally.add("by", pb.TaskReport(key=key, state=pb.TASK_FINISHED, rows_in=5, seconds=0.2))
    >>> {name: nodes["by"].rows_in for name, nodes in tally.jobs().items()}
    {'job-1': 5}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, dict[str, NodeTally]] = OrderedDict()
        self._released: deque[str] = deque(maxlen=JOBS_MAX)
        self._ended: Counter[pb.TaskState] = Counter()
        self._seconds = 0.0

    def add(self, node: str, report: pb.TaskReport) -> None:
        """A task of `node` has ended."""
        job = report.key.job_id
        with self._lock:
            self._ended[report.state] += 1
            self._seconds += report.seconds
            if job in self._released:  # a task that was stopped ends a little later
                return
            nodes = self._jobs.setdefault(job, {})
            self._jobs.move_to_end(job)
            if node in nodes or len(nodes) < NODES_MAX:
                nodes.setdefault(node, NodeTally()).add(report)
            while len(self._jobs) > JOBS_MAX:
                self._jobs.popitem(last=False)

    def forget(self, job: str) -> None:
        """The job was released."""
        with self._lock:
            self._jobs.pop(job, None)
            self._released.append(job)

    def jobs(self) -> Mapping[str, Mapping[str, NodeTally]]:
        """Tallies by job and node."""
        with self._lock:
            return {job: dict(nodes) for job, nodes in self._jobs.items()}

    @property
    def ended(self) -> Mapping[pb.TaskState, int]:
        """How many tasks ended in which state, of all jobs there ever were."""
        with self._lock:
            return dict(self._ended)

    @property
    def seconds(self) -> float:
        """How long they took together."""
        return self._seconds
