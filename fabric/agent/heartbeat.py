"""Heartbeats of an agent: the lease that they renew, and whether it asks for no further tasks.

`Lease` says how long an agent may go on without a word from its coordinator. It ends `seconds`
after the *sending* of the last heartbeat that was acknowledged: the coordinator, which counts from
its arrival, can't have given the agent's tasks to anybody before. Pure: whoever asks brings the
time.

`is_overloaded`: an agent that does nothing never is, or nobody would give it work again.
"""

from __future__ import annotations

from pathlib import Path

OVER_BOUND = 1.1
"""Times the memory it was given: what spills keeps below, so something else grows."""
FREE_SHARE = 0.04
"""Of the machine's memory: with less, the next task may end the process."""


class Lease:
    """One agent's; `seconds` 0 means that there is none (embedded). Any thread may call it.

    >>> lease = Lease()
    >>> lease.begin(5.0, now=100.0)
    >>> number = lease.beat(now=101.0)
    >>> lease.acknowledged(number)
    False
    >>> lease.is_over(105.5), lease.is_over(106.0)
    (False, True)
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0
        self._sent: dict[int, float] = {}
        self._n_sent = 0
        self._expired = False

    def begin(self, seconds: float, now: float) -> None:
        """The coordinator said welcome to a hello that was sent at `now`, or after."""
        self._seconds, self._since, self._expired = seconds, now, False
        self._sent.clear()

    def beat(self, now: float) -> int:
        """A heartbeat is about to be sent; returns its number."""
        self._n_sent += 1
        self._sent[self._n_sent] = now
        return self._n_sent

    def acknowledged(self, number: int) -> bool:
        """The coordinator acknowledged that heartbeat; whether the lease was over before."""
        sent, was_over = self._sent.pop(number, None), self._expired
        if sent is not None:
            self._since, self._expired = max(self._since, sent), False
        for older in [n for n in self._sent if n < number]:
            del self._sent[older]
        return was_over and not self._expired

    def left_s(self, now: float) -> float | None:
        """How long it still holds, or until it is worth another look; None when there is none."""
        if self._seconds <= 0:
            return None
        if self._expired:  # a heartbeat that is acknowledged after all makes it hold again
            return self._seconds
        return max(0.0, self._since + self._seconds - now)

    def is_over(self, now: float) -> bool:
        """Whether the tasks must stop."""
        return self._seconds > 0 and now - self._since >= self._seconds

    def ends_now(self, now: float) -> bool:
        """Whether it is over, once for each time that it runs out."""
        if not self.is_over(now) or self._expired:
            return False
        self._expired = True
        return True


def meminfo() -> str:
    """What Linux says of the machine's memory; empty elsewhere."""
    try:
        return Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return ""


def is_overloaded(running: int, rss_bytes: int, memory_bytes: int, meminfo: str) -> bool:
    """From its tasks, its memory and its bound, and the text of ``/proc/meminfo`` ("": unknown).

    >>> is_overloaded(1, 700, 512, ""), is_overloaded(0, 700, 512, "")
    (True, False)
    >>> is_overloaded(1, 1, 0, "MemTotal: 1000 kB\\nMemAvailable: 30 kB\\n")
    True
    """
    if running == 0:
        return False
    if memory_bytes and rss_bytes > memory_bytes * OVER_BOUND:
        return True
    found = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total, free = (found.get(name, "").split() for name in ("MemTotal", "MemAvailable"))
    return bool(total and free) and int(free[0]) < int(total[0]) * FREE_SHARE
