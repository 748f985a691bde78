"""When a task has seen a barrier on all of its channels: its snapshot is taken then.

One job: `Alignment`, a pure state machine for one attempt of one task. A channel is (edge,
producer). After a barrier came on one, its further items wait until all others have brought theirs
or have ended; so the snapshot holds exactly what came before the barrier on every channel.

An unaligned checkpoint takes the snapshot at once: `skip` says which channels still owe their
barriers, and what these bring before it, their rows in flight, is part of the snapshot as well.

Barriers may come twice, late, or never. One of a checkpoint that is over changes nothing; one of a
newer checkpoint ends the alignment that is under way, because the coordinator has only one under
way: what lacks a barrier then would wait for ever. When more is held than `held_bytes_max` the task
gives the checkpoint up, too, and goes on. The sources of a task are a channel, too. After a
restart whatever belongs to the checkpoint that was `restored`, or an older one, is of another run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fabric._cython.kernels.barrier import BarrierTracker
from fabric.errors import InternalError

Channel = tuple[int, int]
"""Edge, and the producer's task."""
_ABORTED_MAX = 64


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep what comes on this channel, in order, until a `TakeSnapshot` or `DeclineSnapshot`."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Take the snapshot now, then send the barrier on; nothing is held any more."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Ignore:
    """Go on as if the barrier had not come."""

    checkpoint: int
    why: str


@dataclass(frozen=True, slots=True)
class DeclineSnapshot:
    """Tell the coordinator that the task declines; all that was held for it may go on."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class SkipAlignment:
    """Take the snapshot now, then send the barrier on; nothing is held any more.

    What the channels in `missing` bring before their barriers belongs to the snapshot.
    """

    checkpoint: int
    missing: frozenset[Channel]


Outcome = Hold | TakeSnapshot | SkipAlignment | Ignore | DeclineSnapshot
"""What is to be done now, before anything else is read."""


class Alignment:
    """The barriers of one task.

    >>> alignment = Alignment([(0, 0), (0, 1)])
    >>> alignment.on_barrier((0, 0), 7), alignment.is_held((0, 0))
    ([Hold(checkpoint=7)], True)
    >>> alignment.on_barrier((0, 1), 7), alignment.is_held((0, 0))
    ([TakeSnapshot(checkpoint=7)], False)
    """

    def __init__(
        self,
        channels: Iterable[Channel] = (),
        held_bytes_max: int | None = None,
        *,
        restored: int = 0,
    ) -> None:
        self._channels = {channel: number for number, channel in enumerate(dict.fromkeys(channels))}
        self._tracker = BarrierTracker(len(self._channels))
        self._open = set(self._channels)
        """Channels that have not ended."""
        self._held_bytes_max = held_bytes_max
        self._current: int | None = None
        self._arrived: set[Channel] = set()
        self._held_bytes = 0
        self._over = restored
        """The newest checkpoint that was taken or given up: it and older ones are over."""
        self._aborted: set[int] = set()
        """Newer ones that are over before a barrier came."""
        self.ignored: Counter[str] = Counter()

    @property
    def current(self) -> int | None:
        """The checkpoint that is being aligned."""
        return self._current

    @property
    def over(self) -> int:
        """The newest checkpoint that was taken, declined or given up."""
        return self._over

    @property
    def held_bytes(self) -> int:
        """What `on_item` was told to hold."""
        return self._held_bytes

    def is_held(self, channel: Channel) -> bool:
        """Whether items of a channel have to wait."""
        return channel in self._arrived

    def on_barrier(self, channel: Channel, checkpoint: int) -> list[Outcome]:
        """A barrier is next on a channel."""
        self._check(channel)
        if channel not in self._open:
            return self._ignore(checkpoint, "the channel has ended")
        if (why := self._unwanted(checkpoint)) is not None:
            return self._ignore(checkpoint, why)
        given_up = self._begin(checkpoint)
        self._arrived.add(channel)
        self._tracker.register(checkpoint, self._channels[channel])
        return [*given_up, *self._step()]

    def skip(self, checkpoint: int) -> list[Outcome]:
        """The coordinator no longer waits for the barriers of a checkpoint.

        >>> alignment = Alignment([(0, 0), (0, 1)])
        >>> alignment.on_barrier((0, 0), 7)
        [Hold(checkpoint=7)]
        >>> alignment.skip(7)
        [SkipAlignment(checkpoint=7, missing=frozenset({(0, 1)}))]
        """
        if self._channels and not self._open:
            return self._ignore(checkpoint, "all channels have ended")
        if (why := self._unwanted(checkpoint)) is not None:
            return self._ignore(checkpoint, why)
        given_up = self._begin(checkpoint)
        missing = frozenset(self._open - self._arrived)
        self._release(checkpoint)
        return [*given_up, SkipAlignment(checkpoint, missing)]

    def owing(self, checkpoint: int) -> frozenset[Channel]:
        """Channels that have still to bring their barriers of a checkpoint; none if it is over.

        >>> Alignment([(0, 0), (0, 1)]).owing(7) == {(0, 0), (0, 1)}
        True
        """
        if self._unwanted(checkpoint) is not None:
            return frozenset()
        arrived = self._arrived if self._current == checkpoint else set[Channel]()
        return frozenset(self._open - arrived)

    def on_item(self, channel: Channel, n_bytes: int) -> list[Outcome]:
        """Something else is next on a channel; without an outcome it may go on."""
        self._check(channel)
        if channel not in self._arrived or self._current is None:
            return []
        self._held_bytes += n_bytes
        if self._held_bytes_max is None or self._held_bytes <= self._held_bytes_max:
            return [Hold(self._current)]
        n_missing = len(self._open - self._arrived)
        return self._give_up(
            f"{self._held_bytes} bytes wait for the barriers of {n_missing} of "
            f"{len(self._channels)} channels, more than {self._held_bytes_max}"
        )

    def on_end(self, channel: Channel) -> list[Outcome]:
        """A channel has ended: nobody waits for its barriers any more."""
        self._check(channel)
        self._open.discard(channel)
        self._tracker.end(self._channels[channel])
        return [] if self._current is None else self._step(quiet=True)

    def on_abort(self, checkpoint: int) -> list[Outcome]:
        """The coordinator gave a checkpoint up; what was held for it may go on."""
        if self._current is not None and checkpoint >= self._current:
            self._release(self._current)
        if checkpoint > self._over:
            self._aborted = set(sorted({*self._aborted, checkpoint})[-_ABORTED_MAX:])
        return []

    # ---- inside

    def _unwanted(self, checkpoint: int) -> str | None:
        """Why a barrier changes nothing."""
        if checkpoint <= self._over:
            return "the checkpoint is over"
        if checkpoint in self._aborted:
            return "the checkpoint was aborted"
        if self._current is not None and checkpoint < self._current:
            return "a newer checkpoint is under way"
        return None

    def _begin(self, checkpoint: int) -> list[Outcome]:
        """Make a checkpoint the one under way; what that ends."""
        if self._current == checkpoint:
            return []
        given_up: list[Outcome] = []
        if self._current is not None:
            given_up = self._give_up(f"checkpoint {checkpoint} began before all its barriers came")
        self._current = checkpoint
        self._tracker.create(checkpoint)
        return given_up

    def _step(self, *, quiet: bool = False) -> list[Outcome]:
        """After something came: the snapshot, or to go on waiting."""
        assert self._current is not None
        checkpoint = self._current
        if self._tracker.coordinate() != checkpoint:
            return [] if quiet else [Hold(checkpoint)]
        self._release(checkpoint)
        return [TakeSnapshot(checkpoint)]

    def _give_up(self, reason: str) -> list[Outcome]:
        assert self._current is not None
        checkpoint = self._current
        self._release(checkpoint)
        return [DeclineSnapshot(checkpoint, reason)]

    def _release(self, checkpoint: int) -> None:
        self._over = max(self._over, checkpoint)
        self._aborted = {other for other in self._aborted if other > self._over}
        self._tracker.abort(checkpoint)
        self._current, self._held_bytes = None, 0
        self._arrived.clear()

    def _ignore(self, checkpoint: int, why: str) -> list[Outcome]:
        self.ignored[why] += 1
        return [Ignore(checkpoint, why)]

    def _check(self, channel: Channel) -> None:
        if channel not in self._channels:
            raise InternalError(f"the task has no channel {channel}")
