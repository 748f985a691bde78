"""How a handle waits for its job: for the end, and for a checkpoint that it asked for.

One job: `statuses`, each as it comes until a time is over, `taken`, which asks how far a checkpoint
is until it is there, and `rescaled`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import TypeAlias

from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi
from fabric.control.errors import from_detail
from fabric.errors import FabricError, InternalError

PAUSE_S, PAUSE_MAX_S = 0.02, 0.5
"""Between two questions how far a checkpoint is: half longer each time."""

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
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = PAUSE_S
    while (told := control.take_checkpoint(request)).state == "under way":
        request.again = True
        left_s = pause_s if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(
                f"the checkpoint of job {request.job_id} is still under way; job.checkpoints() "
                "says how far it is"
            )
        time.sleep(min(pause_s, left_s))
        pause_s = min(PAUSE_MAX_S, 1.5 * pause_s)
    if told.state == "failed":
        raise from_detail(told.error).at(job=request.job_id)
    return told


def rescaled(
    control: ControlApi, job_id: str, parallelism: int | str, timeout_s: float | None
) -> pb.JobStatus:
    """Have a stream rescaled, and wait until its tasks run.

    A coordinator that begins anew meanwhile knows nothing of it: it is asked again.

    Raises
    ------
    TimeoutError
        They did not in `timeout_s`; they may still come.
    FabricError
        Why it can't be.
    """
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    asked, pause_s = pb.RescaleRequest(job_id=job_id), PAUSE_S
    if isinstance(parallelism, str):
        asked.reactive = True
    else:
        asked.parallelism = max(0, parallelism)
    while (status := control.rescale(asked)).rescaling:
        left_s = pause_s if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(
                f"job {job_id} is still being rescaled to {status.rescaling} tasks; job.explain() "
                "says which of them run"
            )
        time.sleep(min(pause_s, left_s))
        pause_s = min(PAUSE_MAX_S, 1.5 * pause_s)
    return status


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
