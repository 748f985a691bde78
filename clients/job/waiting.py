"""How a handle waits for its job: for the end, and for a checkpoint that it asked for.

One job: `statuses`, each as it comes until a time is over, `taken`, which asks how far a checkpoint
is until it is there, and `rescaled`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from fabric.clients.job.stream_name import Parallelism
from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi
from fabric.control.errors import from_detail
from fabric.errors import FabricError, InternalError

PAUSE_S, PAUSE_MAX_S = 0.02, 0.5
"""Between two questions how far a checkpoint is: half longer each time."""

Told = TypeVar("Told")
Heard: TypeAlias = "queue.SimpleQueue[pb.JobStatus | FabricError | None]"


def statuses(control: ControlApi, job_id: str, timeout_s: float | None) -> Iterator[pb.JobStatus]:
    """Statuses until the ended one, or `TimeoutError` when `timeout_s` is over."""
    request = pb.JobRequest(job_id=job_id)
    if timeout_s is None:
        return control.watch(request)
    return _until(control, request, time.monotonic() + timeout_s)


def taken(
    control: ControlApi, request: pb.TakeCheckpointRequest, timeout_s: float | None
) -> pb.TakenCheckpoint:
    """Ask for a checkpoint, and wait until it is there.

    Raises
    ------
    TimeoutError
        It was not in `timeout_s`; it may still come.
    FabricError
        What the checkpoint failed with, or why there can be none.
    """

    def ask() -> pb.TakenCheckpoint:
        told = control.take_checkpoint(request)
        request.again = True
        return told

    told = _ask_until(
        ask, lambda told: told.state != "under way", timeout_s,
        lambda told: f"the checkpoint of job {request.job_id} is still under way; "
        "job.checkpoints() says how far it is",
    )  # fmt: skip
    if told.state == "failed":
        raise from_detail(told.error).at(job=request.job_id)
    return told


def rescaled(
    control: ControlApi, job_id: str, parallelism: Parallelism, timeout_s: float | None
) -> pb.JobStatus:
    """Rescale a stream, and wait until its tasks run.

    The request is repeated: a coordinator that restarts meanwhile has forgotten it.

    Raises
    ------
    TimeoutError
        They did not in `timeout_s`; they may still come.
    FabricError
        Why it can't be.
    """
    request = pb.RescaleRequest(job_id=job_id)
    if isinstance(parallelism, str):
        request.reactive = True
    else:
        request.parallelism = parallelism
    return _ask_until(
        lambda: control.rescale(request), lambda status: not status.rescaling, timeout_s,
        lambda status: f"job {job_id} is still being rescaled to parallelism {status.rescaling}; "
        "job.explain() says which tasks run",
    )  # fmt: skip


def _ask_until(
    ask: Callable[[], Told], done: Callable[[Told], bool], timeout_s: float | None,
    late: Callable[[Told], str],
) -> Told:  # fmt: skip
    """Ask until the answer is `done`; `TimeoutError` with what `late` says of the last one."""
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = PAUSE_S
    while not done(told := ask()):
        left_s = pause_s if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(late(told))
        time.sleep(min(pause_s, left_s))
        pause_s = min(PAUSE_MAX_S, 1.5 * pause_s)
    return told


def _until(control: ControlApi, request: pb.JobRequest, end_s: float) -> Iterator[pb.JobStatus]:
    """A thread listens, so that the wait can end before the next status comes."""
    heard: Heard = queue.SimpleQueue()
    threading.Thread(
        target=_listen, args=(control, request, heard), daemon=True, name=f"watch {request.job_id}"
    ).start()
    while (one := _next(heard, request.job_id, end_s)) is not None:
        if isinstance(one, FabricError):
            raise one
        yield one


def _next(heard: Heard, job_id: str, end_s: float) -> pb.JobStatus | FabricError | None:
    try:
        return heard.get(timeout=max(0.0, end_s - time.monotonic()))
    except queue.Empty:
        raise TimeoutError(f"job {job_id} still runs; wait() again or cancel() it") from None


def _listen(control: ControlApi, request: pb.JobRequest, heard: Heard) -> None:
    """Put every status into `heard`, then None; an error instead when the watch broke."""
    try:
        for status in control.watch(request):
            heard.put(status)
    except FabricError as error:
        heard.put(error)
    except Exception as error:  # else whoever waits would never hear of it
        heard.put(InternalError(f"the watch of the job ended by {error!r}"))
    heard.put(None)
