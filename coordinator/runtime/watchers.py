"""Who wants to hear when a job changes.

One job: call-backs by job. Any thread may come and go; none is called under the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

Notify = Callable[[], None]


class Watchers:
    """Call-backs of all jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_job: dict[str, list[Notify]] = {}

    def add(self, job_id: str, notify: Notify) -> Notify:
        """Call `notify` (which must not block) after each change; returns what ends that."""
        with self._lock:
            self._by_job.setdefault(job_id, []).append(notify)
        return lambda: self._remove(job_id, notify)

    def notify(self, job_id: str) -> None:
        """A job has changed."""
        with self._lock:
            found = list(self._by_job.get(job_id, ()))
        for notify in found:
            notify()

    def notify_all(self) -> None:
        """Nobody will hear of any job any more."""
        with self._lock:
            found = [notify for each in self._by_job.values() for notify in each]
        for notify in found:
            notify()

    def _remove(self, job_id: str, notify: Notify) -> None:
        with self._lock:
            left = [other for other in self._by_job.get(job_id, []) if other is not notify]
            if left:
                self._by_job[job_id] = left
            else:
                self._by_job.pop(job_id, None)
