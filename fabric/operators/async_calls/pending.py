"""The requests of an asynchronous step as a pure state machine: each row leaves exactly once.

             room, rate          an answer, or a failure without a retry left
    row ──► waiting ──► pending ───────────────────────────────────► done ──► taken
               ▲           │ │ timed out                               ▲
               │  failed   │ └──► cancelling ──────────────────────────┤
               └───────────┘           │ ended: a retry, or a failure  │
               after a back-off ◄──────┘           never ended: fatal ─┘

One job: `PendingRequests`, which is told what happens and what time it is, and says which attempts
begin and which are cancelled. No I/O, no clock, no randomness of its own.

What holds at any time: two attempts of a request never run at once, as a retry waits until the
cancelled one has ended; an answer of an earlier attempt changes nothing; rows and bytes inside stay
below their bounds; ordered requests are taken in the order in which they were added; and the
watermark that came before a row is held back until the row was taken (`held_us`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Literal

GRACE_US = 10_000_000
"""So long after it was cancelled an attempt has ended, or it never will."""
BACKOFF_US_MAX = 30_000_000
BURST_US = 100_000
"""Attempts of so long may begin at once where none began before: a rate is no drum beat."""
TIMED_OUT = "did not answer within its timeout"
NEVER_ENDED = "went on for 10 s after it was cancelled for its timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What bounds the requests of one task. A request larger than `bytes_max` goes alone.

    Each attempt may take `timeout_us`; one that fails is made again `retries` times, the first time
    after `backoff_us`, then after twice as long, and so on. `rate_per_s` counts attempts; 0: any.
    """

    capacity: int
    bytes_max: int
    timeout_us: int
    ordered: bool = True
    retries: int = 0
    backoff_us: int = 100_000
    rate_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    value: object


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing came back. `retries`: another attempt may help; `external`: so may a restart."""

    reason: str
    retries: bool = True
    external: bool = False
    fatal: bool = False
    """Whatever a policy says, the task can't go on."""


Outcome = Answer | Failure
State = Literal["waiting", "pending", "cancelling", "done"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `attempt` is the one that runs, or ran last; `due_us` ends its state."""

    n_rows: int
    n_bytes: int
    watermark: int
    state: State = "waiting"
    attempt: int = 0
    due_us: int | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin an attempt of a request."""

    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the attempt of a request that runs; tell `ended` when it has."""

    number: int
    attempt: int


Effect = Begin | Cancel


class PendingRequests:
    """All requests that are not taken yet. Times are microseconds of a clock that never goes back.

    `jitter` gives a number from 0 to 1: a retry waits half of its back-off at least.

    >>> limits = RequestLimits(capacity=2, bytes_max=100, timeout_us=5, retries=1, backoff_us=8)
    >>> requests = PendingRequests(limits)
    >>> requests.add(1, 10, watermark=7), requests.at(0)
    (0, [Begin(number=0, attempt=1)])
    >>> requests.at(5), requests.ended(0, 1, Failure("cancelled"), 6), requests.next_due_us()
    ([Cancel(number=0, attempt=1)], [], 14)
    >>> requests.at(14), requests.ended(0, 2, Answer("b"), 15), requests.held_us()
    ([Begin(number=0, attempt=2)], [], 7)
    >>> requests.take(), requests.held_us()
    ([(0, Answer(value='b'))], None)
    """

    def __init__(self, limits: RequestLimits, jitter: Callable[[], float] = lambda: 1.0) -> None:
        self._limits, self._jitter = limits, jitter
        self._inside: dict[int, Request] = {}
        """By number, so in the order in which they were added."""
        self._done: deque[int] = deque()
        self._due: list[tuple[int, int]] = []
        """When something is due, and of which request; some of it may have changed since."""
        self._ready: list[int] = []
        """Those that begin as soon as the rate allows, the oldest first."""
        self._paid_us = 0.0
        """The attempts that began are paid for, by the rate, up to this time."""
        self._n_added = self._n_rows = self._n_bytes = 0
        self.n_retried = 0

    def has_room(self, n_rows: int, n_bytes: int) -> bool:
        """Whether a request of this size may be added now."""
        if not self._inside:
            return True
        limits = self._limits
        return (
            self._n_rows + n_rows <= limits.capacity and self._n_bytes + n_bytes <= limits.bytes_max
        )

    def add(self, n_rows: int, n_bytes: int, watermark: int) -> int:
        """Take in a request, for which there must be room; returns its number."""
        assert self.has_room(n_rows, n_bytes)
        number, self._n_added = self._n_added, self._n_added + 1
        self._inside[number] = Request(n_rows, n_bytes, watermark)
        heappush(self._ready, number)
        self._n_rows += n_rows
        self._n_bytes += n_bytes
        return number

    def at(self, now_us: int) -> list[Effect]:
        """It is `now_us`: attempts that took too long are cancelled, others begin."""
        effects: list[Effect] = []
        while self._due and self._due[0][0] <= now_us:
            due_us, number = heappop(self._due)
            request = self._inside.get(number)
            if request is None or request.due_us != due_us:
                continue
            match request.state:
                case "waiting":
                    self._inside[number] = replace(request, due_us=None)
                    heappush(self._ready, number)
                case "pending":
                    self._wait_until(number, replace(request, state="cancelling"), now_us, GRACE_US)
                    effects.append(Cancel(number, request.attempt))
                case "cancelling":
                    self._finish(number, Failure(NEVER_ENDED, retries=False, fatal=True))
        while self._ready and self._may_begin(now_us):
            number = heappop(self._ready)
            request = self._inside[number]
            begun = replace(request, state="pending", attempt=request.attempt + 1)
            self._wait_until(number, begun, now_us, self._limits.timeout_us)
            effects.append(Begin(number, begun.attempt))
        return effects

    def ended(self, number: int, attempt: int, outcome: Outcome, now_us: int) -> list[Effect]:
        """An attempt has ended, by itself or because it was cancelled."""
        request = self._inside.get(number)
        if request is None or request.attempt != attempt or request.due_us is None:
            return self.at(now_us)  # nobody waits for it any more
        if request.state not in ("pending", "cancelling"):
            return self.at(now_us)
        if request.state == "cancelling":
            outcome = Failure(TIMED_OUT, external=True)
        if isinstance(outcome, Failure) and outcome.retries and attempt <= self._limits.retries:
            self.n_retried += 1
            waits = replace(request, state="waiting")
            self._wait_until(number, waits, now_us, self._backoff_us(attempt))
        else:
            self._finish(number, outcome)
        return self.at(now_us)

    def next_due_us(self) -> int | None:
        """When `at` has something to do, if nothing happens before; None: never."""
        while self._due:
            due_us, number = self._due[0]
            request = self._inside.get(number)
            if request is not None and request.due_us == due_us:
                break
            heappop(self._due)
        times = [self._due[0][0]] if self._due else []
        if self._ready:
            times.append(-int(-(self._paid_us - BURST_US) // 1))
        return min(times, default=None)

    @property
    def has_done(self) -> bool:
        """Whether `take` has something to give."""
        if not self._limits.ordered:
            return bool(self._done)
        first = next(iter(self._inside.values()), None)
        return first is not None and first.state == "done"

    def take(self) -> list[tuple[int, Outcome]]:
        """Requests that may leave now, with their outcomes; they are inside no more."""
        found: list[tuple[int, Outcome]] = []
        for number in list(self._leaving()):
            request = self._inside.pop(number)
            self._n_rows -= request.n_rows
            self._n_bytes -= request.n_bytes
            assert request.outcome is not None
            found.append((number, request.outcome))
        return found

    def held_us(self) -> int | None:
        """The watermark that must not be passed yet; None where nothing is inside."""
        first = next(iter(self._inside.values()), None)
        return None if first is None else first.watermark

    def inside(self) -> list[int]:
        """The numbers of all requests that were not taken, oldest first: what a snapshot holds."""
        return list(self._inside)

    # ---- inside

    def _leaving(self) -> list[int]:
        if not self._limits.ordered:
            found, self._done = list(self._done), deque()
            return found
        found = []
        for number, request in self._inside.items():
            if request.state != "done":
                break
            found.append(number)
        return found

    def _wait_until(self, number: int, request: Request, now_us: int, wait_us: int) -> None:
        due_us = now_us + wait_us
        self._inside[number] = replace(request, due_us=due_us)
        heappush(self._due, (due_us, number))

    def _finish(self, number: int, outcome: Outcome) -> None:
        request = self._inside[number]
        self._inside[number] = replace(request, state="done", due_us=None, outcome=outcome)
        if not self._limits.ordered:
            self._done.append(number)

    def _backoff_us(self, attempt: int) -> int:
        whole = min(self._limits.backoff_us << min(attempt - 1, 40), BACKOFF_US_MAX)
        return max(1, int(whole * (0.5 + 0.5 * self._jitter())))

    def _may_begin(self, now_us: int) -> bool:
        """Whether the rate allows one more attempt now, which then counts."""
        rate = self._limits.rate_per_s
        if not rate:
            return True
        if self._paid_us - BURST_US > now_us:
            return False
        self._paid_us = max(self._paid_us, float(now_us)) + 1e6 / rate
        return True
