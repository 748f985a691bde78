"""How far tasks that read one source may run ahead of each other.

`WatermarkAlignment` takes the time of each task's slowest split and returns that of the slowest of
the *other* tasks, by node; a task holds its own splits back by it (`fabric.event_time.source`). The
slowest task thus hears of the second slowest, so that its own old time holds up nobody. Pure: times
in, times out; forgotten when the tasks begin anew.
"""

from __future__ import annotations

from collections import defaultdict

from fabric.coordinator.planner.stages import Key
from fabric.event_time import END_OF_TIME

NODES_MAX = 1000


class WatermarkAlignment:
    """The times of one stream's tasks, by the path of the node that gives them.

    >>> alignment = WatermarkAlignment()
    >>> [alignment.report("times", (0, task), time) for task, time in enumerate([100, 700, 300])]
    [9223372036854775807, 100, 100]
    >>> alignment.report("times", (0, 0), 120)
    300
    >>> alignment.remove((0, 2))
    >>> alignment.report("times", (0, 0), 130)
    700
    """

    def __init__(self) -> None:
        self._times: defaultdict[str, dict[Key, int]] = defaultdict(dict)

    def takes(self, node: str) -> bool:
        """Whether it may be a node of the plan: there are not so many."""
        return node in self._times or len(self._times) < NODES_MAX

    def report(self, node: str, task: Key, time_us: int) -> int:
        """A task's slowest split has come so far (`END_OF_TIME`: it has none that moves); returns
        the slowest of the other tasks, `END_OF_TIME` where there is none."""
        times = self._times[node]
        times[task] = time_us
        return min((time for other, time in times.items() if other != task), default=END_OF_TIME)

    def remove(self, task: Key) -> None:
        """It reads no more."""
        for times in self._times.values():
            times.pop(task, None)
