"""How long an agent may go on without a word from its coordinator.

One job: `Lease`. It ends `seconds` after the *sending* of the last heartbeat that was heard: the
coordinator, which counts from its arrival, can't have given the agent's tasks to anybody before.
Pure: whoever asks brings the time.
"""

from __future__ import annotations


class Lease:
    """One agent's; `seconds` 0 means that there is none (embedded). Any thread may call it.

    >>> lease = Lease()
    >>> lease.begin(5.0, now=100.0)
    >>> number = lease.beat(now=101.0)
    >>> lease.heard(number)
    False
    >>> lease.is_over(105.5), lease.is_over(106.0)
    (False, True)
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0
        self._sent: dict[int, float] = {}
        self._n_sent = 0
        self._told = False

    def begin(self, seconds: float, now: float) -> None:
        """The coordinator said welcome to a hello that was sent at `now`, or after."""
        self._seconds, self._since, self._told = seconds, now, False
        self._sent.clear()

    def beat(self, now: float) -> int:
        """A heartbeat is about to be sent; returns its number."""
        self._n_sent += 1
        self._sent[self._n_sent] = now
        return self._n_sent

    def heard(self, number: int) -> bool:
        """The coordinator heard that heartbeat; whether the lease was over, as it was told."""
        sent, was_told = self._sent.pop(number, None), self._told
        if sent is not None:
            self._since, self._told = max(self._since, sent), False
        for older in [n for n in self._sent if n < number]:
            del self._sent[older]
        return was_told and not self._told

    def left_s(self, now: float) -> float | None:
        """How long it still holds, or until it is worth another look; None when there is none."""
        if self._seconds <= 0:
            return None
        if self._told:  # a heartbeat that is heard after all makes it hold again
            return self._seconds
        return max(0.0, self._since + self._seconds - now)

    def is_over(self, now: float) -> bool:
        """Whether the tasks must stop."""
        return self._seconds > 0 and now - self._since >= self._seconds

    def ends_now(self, now: float) -> bool:
        """Whether it is over, once for each time that it runs out."""
        if not self.is_over(now) or self._told:
            return False
        self._told = True
        return True
