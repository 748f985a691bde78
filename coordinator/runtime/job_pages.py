"""Pages of a long list of jobs.

One job: `page`, from all jobs to those that a `ListRequest` asks for. Pages run from the newest
back, so that jobs that come in meanwhile change no later page.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError


def page(jobs: Iterable[pb.JobStatus], request: pb.ListRequest) -> pb.JobList:
    """The jobs of one page, oldest first; all of them when `limit` is 0.

    >>> jobs = [pb.JobStatus(job_id=name, submitted_s=at) for at, name in enumerate("abc")]
    >>> first = page(jobs, pb.ListRequest(limit=2))
    >>> [job.job_id for job in first.jobs], first.next
    (['b', 'c'], '1.0 b')
    >>> [job.job_id for job in page(jobs, pb.ListRequest(limit=2, before=first.next)).jobs]
    ['a']
    """
    wanted = [job for job in jobs if not request.states or job.state in request.states]
    wanted.sort(key=_place)
    if request.before:
        end = _read(request.before)
        wanted = [job for job in wanted if _place(job) < end]
    chosen = wanted[-request.limit :] if request.limit else wanted
    more = len(chosen) < len(wanted)
    return pb.JobList(jobs=chosen, next=_write(_place(chosen[0])) if more else "")


def _place(job: pb.JobStatus) -> tuple[float, str]:
    return job.submitted_s, job.job_id


def _write(place: tuple[float, str]) -> str:
    return f"{place[0]!r} {place[1]}"


def _read(text: str) -> tuple[float, str]:
    submitted, _, job_id = text.partition(" ")
    try:
        return float(submitted), job_id
    except ValueError:
        raise ConfigError("`before` must be the `next` of a page that was read earlier") from None
