"""The last lines that a process logged about each job, for whoever asks later.

One job: `Recorder`, a bounded memory of events that name a job. Agents answer Flight's action
``job.logs`` from it: clients reach agents by Flight anyway, and the coordinator need not carry
lines it has no use for. Kept as text, a quarter of what a dict takes: a stream says something with
every checkpoint.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

LINES_MAX, JOBS_MAX, CHARS_MAX = 200, 100, 4096


class Recorder:
    """Keeps the newest `LINES_MAX` events of the newest `JOBS_MAX` jobs; any thread may call.

    >>> recorder = Recorder()
    >>> recorder.add({"event": "task ended", "job": "job-1", "rows": 3})
    >>> recorder.lines("job-1"), recorder.lines("job-2")
    ([{'event': 'task ended', 'job': 'job-1', 'rows': 3}], [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, deque[str]] = OrderedDict()

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep `event` if it names a job."""
        job = event.get("job")
        if not isinstance(job, str) or not job:
            return
        kept = {name: _kept(value) for name, value in event.items() if name != "exc_info"}
        line = json.dumps(kept)
        with self._lock:
            lines = self._jobs.setdefault(job, deque(maxlen=LINES_MAX))
            self._jobs.move_to_end(job)
            lines.append(line)
            while len(self._jobs) > JOBS_MAX:
                self._jobs.popitem(last=False)

    def lines(self, job: str) -> list[dict[str, Any]]:
        """What is kept of a job, oldest first."""
        with self._lock:
            found = list(self._jobs.get(job, ()))
        return [json.loads(line) for line in found]


def _kept(value: object) -> object:
    """What JSON has a word for; texts are cut."""
    if isinstance(value, bool | int | float):
        return value
    return str(value)[:CHARS_MAX]
