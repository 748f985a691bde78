"""The threads of an agent's tasks, and the pipelined edges that join them.

One job: `TaskThreads`: one thread per running task, its mailbox and its cancellation. A task that
is cancelled ends at its next step; one whose function does not come back is interrupted in it after
a while (`Interrupter`). Functions in slots are not meant: those are killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue

from fabric import failpoints
from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric.agent.attempts import TaskSpec
from fabric.agent.engine import Services
from fabric.agent.events import Event, Outgoing, TaskEnd
from fabric.agent.pipes import Pipes
from fabric.agent.stream_tasks.mailbox import Mailbox, Order
from fabric.agent.tasks import TaskRun
from fabric.cancellation import Cancellation
from fabric.control import control_pb2 as pb
from fabric.ids import TaskId
from fabric.operators.functions.user_code import interrupt

PATIENT_S = 2.0
"""How long a function of a cancelled task may go on before it is interrupted."""


@dataclass(slots=True)
class _Running:
    cancellation: Cancellation
    mailbox: Mailbox
    thread: threading.Thread


class TaskThreads:
    """The running tasks of one agent; belongs to the agent's thread.

    What happens to tasks is put by `report`; each runs within `reach`, which lets it read and write
    datasets. Pipelined edges whose producers are here are `served` to other agents.
    """

    def __init__(
        self,
        services: Services,
        served: JobPipes,
        report: Callable[[Event], None],
        reach: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._services, self._served = services, served
        self._report, self._reach = report, reach
        self._running: dict[TaskId, _Running] = {}
        self._pipes: dict[str, Pipes] = {}
        self._interrupter = Interrupter()

    def jobs(self) -> set[str]:
        """Jobs with tasks or pipelined edges here."""
        return self._pipes.keys() | {task_id.job for task_id in self._running}

    def start(self, spec: TaskSpec) -> None:
        """Run a task in a thread of its own, which reports its end."""
        cancellation = Cancellation()
        mailbox = Mailbox(lambda message: self._report(Outgoing(message)))
        pipes = self._pipes_of(spec)
        run = TaskRun(spec, self._services, pipes, cancellation, mailbox)

        def work() -> None:
            with self._reach():
                report = run.run()
            failpoints.reach("agent.task-ran")
            self._report(TaskEnd(report))

        thread = threading.Thread(target=work, name=f"task {spec.id}", daemon=True)
        self._running[spec.id] = _Running(cancellation, mailbox, thread)
        thread.start()

    def cancel(self, task_id: TaskId, reason: str) -> None:
        """Make a running task stop; it will report its end."""
        if running := self._running.get(task_id):
            running.cancellation.cancel(reason)
            if self._services.slots is None:  # else functions run in slots, which are killed
                self._interrupter.later(running.thread)
        if pipes := self._pipes.get(task_id.job):
            pipes.cancel(reason)

    def order(self, task_id: TaskId, order: Order) -> None:
        """Give a running task of a stream an order."""
        if running := self._running.get(task_id):
            running.mailbox.put(order)

    def join(self, report: pb.TaskReport) -> None:
        """Wait for the thread that has just reported the end of its task."""
        key = report.key
        task_id = TaskId(key.job_id, key.stage, key.task, key.attempt)
        if running := self._running.pop(task_id, None):
            running.thread.join()

    def join_all(self, timeout_s: float) -> None:
        """Wait for all threads together, which were told to stop, at most for so long."""
        clock = self._services.clock
        deadline_s = clock.monotonic_s() + timeout_s
        for running in list(self._running.values()):
            running.thread.join(max(0.0, deadline_s - clock.monotonic_s()))

    def drop_pipes(self, job: str, reason: str) -> None:
        """The pipelined edges of a job begin anew, or end."""
        if pipes := self._pipes.pop(job, None):
            self._served.remove(job)
            pipes.cancel(reason)
        self._services.exchanges.drop(job)

    def close(self) -> None:
        """Interrupt what still runs when its time has come, and end."""
        self._interrupter.close()

    def _pipes_of(self, spec: TaskSpec) -> Pipes:
        """The pipes of the task's job, joined with those of its producers on other agents."""
        job = spec.id.job
        if (pipes := self._pipes.get(job)) is None:
            pipes = self._pipes[job] = Pipes(job)
            self._served.add(job, pipes)
        for edge in spec.deploy.outputs:
            if edge.mode == pb.MODE_PIPELINED:
                self._served.begin(job, edge.edge, spec.id.task, spec.id.attempt)
        self._services.exchanges.open(spec.deploy, pipes)
        return pipes


class Interrupter:
    """Waits for threads in a thread of its own, which begins with the first one.

    >>> interrupter = Interrupter()
    >>> interrupter.later(threading.current_thread())
    >>> interrupter.close()
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waiting: SimpleQueue[tuple[float, threading.Thread] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def later(self, thread: threading.Thread) -> None:
        """Interrupt the call that `thread` is in if it has not ended by then; from one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="interrupter", daemon=True)
            self._thread.start()
        self._waiting.put((self._clock_s() + PATIENT_S, thread))

    def close(self) -> None:
        """Wait for nobody else, and for the end of those that were named."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (one := self._waiting.get()) is not None:
            due_s, thread = one
            thread.join(max(0.0, due_s - self._clock_s()))
            if thread.is_alive() and thread.ident is not None:
                interrupt(thread.ident)
