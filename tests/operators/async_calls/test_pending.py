"""The state machine of requests: every reachable state to depth 12, and what must hold in each.

From each different state every event is tried once, and everything is brought to its end. Planted
bugs show that the search finds them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.operators.async_calls.pending import (
    BURST_US,
    GRACE_US,
    Answer,
    Begin,
    Cancel,
    Failure,
    Outcome,
    PendingRequests,
    Request,
    RequestLimits,
)
from tests.support.sampled import SOAK

DEPTH = 12
LIMITS = RequestLimits(
    capacity=2, bytes_max=1000, timeout_us=50, retries=1, backoff_us=20, ordered=True
)
OUTCOMES: dict[str, Outcome] = {
    "ok": Answer("a"),
    "fails": Failure("no"),
    "is refused": Failure("never", retries=False),
}
Event = tuple[Any, ...]


@dataclass
class World:
    """The machine, the service that it asks, and a process that may die once."""

    kind: type[PendingRequests]
    limits: RequestLimits
    now_us: int = 0
    added: int = 0
    crashes: int = 0
    running: set[tuple[int, int]] = field(default_factory=set)
    rows: dict[int, int] = field(default_factory=dict)
    """The row of each number, as a process that died numbers them anew."""
    left: list[int] = field(default_factory=list)
    begun_us: list[int] = field(default_factory=list)
    watermark: int = -1

    def __post_init__(self) -> None:
        self.machine = self.kind(self.limits)

    def events(self, n_rows: int) -> Iterator[Event]:
        if self.added < n_rows and self.machine.has_room(1, 1):
            yield ("add",)
        for number, attempt in sorted(self.running):
            yield from (("ended", number, attempt, how) for how in OUTCOMES)
        if self.machine.next_due_us() is not None:
            yield ("tick",)
        if self.machine.has_done:
            yield ("take",)
        if not self.crashes and self.rows:
            yield ("crash",)

    def do(self, event: Event) -> None:
        match event:
            case ("add",):
                number = self.machine.add(1, 1, watermark=self.added)
                self.rows[number] = self.added
                self.added += 1
                self._follow(self.machine.at(self.now_us))
            case ("ended", number, attempt, how):
                self.running.remove((number, attempt))
                self._follow(self.machine.ended(number, attempt, OUTCOMES[how], self.now_us))
            case ("tick",):
                due_us = self.machine.next_due_us()
                assert due_us is not None
                self.now_us = max(self.now_us, due_us)
                self._follow(self.machine.at(self.now_us))
            case ("take",):
                taken = self.machine.take()
                assert taken, "there was something to take"
                self.left += [self.rows.pop(number) for number, _ in taken]
            case ("crash",):  # all attempts are gone, and what is in the snapshot comes again
                again = [self.rows[number] for number in self.machine.inside()]
                self.machine, self.running, self.rows = self.kind(self.limits), set(), {}
                self.crashes += 1
                self.begun_us, self.watermark = [], -1  # a new process knows neither
                for row in again:
                    self.rows[self.machine.add(1, 1, watermark=row)] = row
                self._follow(self.machine.at(self.now_us))

    def check(self) -> None:
        """The invariants of the module's docstring."""
        inside = [self.rows[number] for number in self.machine.inside()]
        assert sorted(self.left + inside) == list(range(self.added)), "a row is lost, or is twice"
        assert len(inside) <= self.limits.capacity
        assert inside == sorted(inside)
        if self.limits.ordered:
            assert self.left == sorted(self.left), "a row overtook another one"
        held_us = self.machine.held_us()
        assert held_us == (min(inside) if inside else None), "event time overtook a row"
        now = self.added if held_us is None else held_us
        assert now >= self.watermark, "event time went back"
        self.watermark = now
        each = [number for number, _ in self.running]
        assert len(each) == len(set(each)), "two attempts of a request run at once"
        assert all(attempt <= self.limits.retries + 1 for _, attempt in self.running)
        if self.limits.rate_per_s:
            for index, begun_us in enumerate(self.begun_us):
                soon = [us for us in self.begun_us[index:] if us - begun_us <= 1_000_000]
                assert len(soon) <= self.limits.rate_per_s * (1 + BURST_US / 1e6) + 1

    def _follow(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Begin(number, attempt):
                    assert (number, attempt) not in self.running
                    assert number in self.rows
                    self.running.add((number, attempt))
                    self.begun_us.append(self.now_us)
                case Cancel(number, attempt):
                    assert (number, attempt) in self.running, "nothing runs that can be cancelled"

    def finish(self, *, answers: bool) -> None:
        """Everything leaves, if the service answers from now on, and if it never does."""
        for _ in range(100):
            if not self.rows:
                break
            if self.machine.has_done:
                self.do(("take",))
            elif self.running and answers:
                self.do(("ended", *min(self.running), "ok"))
            else:
                self.do(("tick",))
        assert not self.rows, "a row never leaves"
        assert sorted(self.left) == list(range(self.added))

    def key(self) -> object:
        """Two worlds with this in common go on alike."""
        machine = self.machine
        requests = tuple(
            (number, self._relative(request)) for number, request in machine._inside.items()
        )
        paid_us = max(machine._paid_us - self.now_us, -BURST_US)
        return (
            requests, tuple(machine._done), tuple(sorted(machine._ready)), paid_us, self.crashes,
            tuple(sorted(self.running)), tuple(self.left), tuple(self.rows.items()), self.watermark,
        )  # fmt: skip

    def _relative(self, request: Request) -> Request:
        due_us = request.due_us
        return replace(request, due_us=None if due_us is None else due_us - self.now_us)


def twin(thing: Any) -> Any:
    """The same with containers of its own; what lies in them is frozen."""
    made = copy(thing)
    for name, value in vars(thing).items():
        if isinstance(value, dict | deque | list | set):
            setattr(made, name, value.copy())
        elif isinstance(value, PendingRequests):
            setattr(made, name, twin(value))
    return made


def search(
    limits: RequestLimits, n_rows: int, kind: type[PendingRequests] = PendingRequests
) -> int:
    """All states that events lead to; returns how many there are."""
    first = World(kind, limits)
    seen, frontier = {first.key()}, [first]
    for depth in range(DEPTH):
        reached: list[World] = []
        for world in frontier:
            for event in world.events(n_rows):
                after = twin(world)
                after.do(event)
                after.check()
                if (key := after.key()) not in seen:
                    seen.add(key)
                    reached.append(after)
            world.finish(answers=depth % 2 == 0)
            world.check()
        frontier = reached
    return len(seen)


@pytest.mark.parametrize("ordered", [True, False])
def test_every_state_to_depth_12(ordered: bool) -> None:
    n_rows = 4 if SOAK else 3
    limits = replace(LIMITS, ordered=ordered, retries=2 if SOAK else 1)
    n_states = search(limits, n_rows)
    assert n_states > 1_000


def test_every_state_with_a_rate() -> None:
    assert search(replace(LIMITS, rate_per_s=1.0, retries=0), 3) > 100


class Forgets(PendingRequests):
    """Loses a request that timed out without a retry left."""

    def _finish(self, number: int, outcome: Outcome) -> None:
        if isinstance(outcome, Failure) and outcome.external:
            self._inside.pop(number)
        else:
            super()._finish(number, outcome)


class Doubles(PendingRequests):
    """Gives a request that was taken once more."""

    def take(self) -> list[tuple[int, Outcome]]:
        before = dict(self._inside)
        taken = super().take()
        if len(taken) == 2:
            self._inside[taken[1][0]] = before[taken[1][0]]
        return taken


class Overtakes(PendingRequests):
    """Takes whatever is done."""

    @property
    def has_done(self) -> bool:
        return bool(self._leaving())

    def _leaving(self) -> list[int]:
        return [number for number, one in self._inside.items() if one.state == "done"]


class LetsTimePass(PendingRequests):
    """Holds event time back for requests alone that nobody answered yet."""

    def held_us(self) -> int | None:
        waits = (one for one in self._inside.values() if one.state != "done")
        first = next(waits, None)
        return None if first is None else first.watermark


class BeginsTwice(PendingRequests):
    """Makes a retry beside the attempt that was cancelled."""

    def at(self, now_us: int) -> list[Any]:
        effects = super().at(now_us)
        for effect in list(effects):
            if isinstance(effect, Cancel):
                request = replace(self._inside[effect.number], attempt=effect.attempt + 1)
                self._wait_until(effect.number, replace(request, state="pending"), now_us, 50)
                effects.append(Begin(effect.number, effect.attempt + 1))
        return effects


class Hangs(PendingRequests):
    """Waits for an attempt that never ends."""

    def next_due_us(self) -> int | None:
        if any(one.state == "cancelling" for one in self._inside.values()):
            return None
        return super().next_due_us()


@pytest.mark.parametrize("kind", [Forgets, Doubles, Overtakes, LetsTimePass, BeginsTwice, Hangs])
def test_a_planted_bug_is_found(kind: type[PendingRequests]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        search(LIMITS, 3, kind)


@settings(max_examples=2_000 if SOAK else 100, deadline=None)
@given(data=st.data(), ordered=st.booleans(), capacity=st.integers(1, 6))
def test_long_runs(data: st.DataObject, ordered: bool, capacity: int) -> None:
    limits = replace(LIMITS, ordered=ordered, capacity=capacity, retries=2)
    world = World(PendingRequests, limits)
    for _ in range(data.draw(st.integers(0, 80))):
        events = list(world.events(1_000))
        world.do(data.draw(st.sampled_from(events)))
        world.check()
    world.finish(answers=data.draw(st.booleans()))
    world.check()


def test_a_request_is_bounded_in_rows_and_in_bytes() -> None:
    requests = PendingRequests(replace(LIMITS, capacity=3, bytes_max=10))
    assert requests.has_room(5, 50), "one that is larger than all goes alone"
    requests.add(2, 4, 0)
    assert requests.has_room(1, 6)
    assert not requests.has_room(2, 1)
    assert not requests.has_room(1, 7)
    requests.at(0)
    requests.ended(0, 1, Answer("a"), 1)
    assert not requests.has_room(2, 1), "what is done takes room until it is taken"
    assert requests.take() == [(0, Answer("a"))]
    assert requests.has_room(3, 10)


def test_backoff_doubles_and_half_of_it_is_random() -> None:
    for jitter, waits in ((1.0, [20, 40, 80]), (0.0, [10, 20, 40])):
        requests = PendingRequests(replace(LIMITS, retries=3), partial(float, jitter))
        requests.add(1, 1, 0)
        now_us, found = 0, []
        requests.at(0)
        for attempt in (1, 2, 3):
            requests.ended(0, attempt, Failure("no"), now_us)
            due_us = requests.next_due_us()
            assert due_us is not None
            found.append(due_us - now_us)
            now_us = due_us
            assert requests.at(now_us) == [Begin(0, attempt + 1)]
        assert found == waits
        requests.ended(0, 4, Failure("no"), now_us)
        assert requests.take() == [(0, Failure("no"))]


def test_an_attempt_that_ignores_its_cancellation_ends_the_task() -> None:
    requests = PendingRequests(LIMITS)
    requests.add(1, 1, 0)
    requests.at(0)
    assert requests.at(50) == [Cancel(0, 1)]
    assert requests.at(50 + GRACE_US) == []
    ((_, outcome),) = requests.take()
    assert isinstance(outcome, Failure)
    assert outcome.fatal
    assert requests.ended(0, 1, Answer("late"), 50 + GRACE_US) == []
