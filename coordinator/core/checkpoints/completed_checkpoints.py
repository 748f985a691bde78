"""The complete checkpoints of a job: which are kept, what is owed of them, which one to restore.

`CompletedCheckpoints` changes the rows with what they say, and returns the writes. Only the newest
checkpoint can owe anything, because the next one is not completed before; or the one before those
that starts have adopted of it, which have prepared nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from fabric.checkpoint.manifest import FINAL, SnapshotAck
from fabric.coordinator.core.checkpoints.rows import (
    Pointer,
    Rows,
    drain_row,
    final_row,
    last_row,
    no_final_row,
    no_pointer_row,
    no_rows,
    pointer_row,
    rows_of,
)
from fabric.coordinator.core.effects import Abandon, CheckpointEffects, Persist
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.planner.stages import Key

Handles = dict[str, tuple[bytes, ...]]
"""What sinks prepared, by node."""


class CompletedCheckpoints:
    """What is written down of the checkpoints of `job`."""

    def __init__(self, job: str, retained: int) -> None:
        self._job, self._retained = job, retained
        self._pointers: dict[int, Pointer] = {}
        self.last = 0
        """The highest number that was given."""
        self.finals: dict[Key, SnapshotAck] = {}
        """The last words of tasks that have ended."""
        self.drains = False
        """Whether its sources are to end."""

    def restore(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Take over what an earlier coordinator wrote down."""
        found = rows_of(self._job, rows)
        self.last = found.last
        self._pointers = {pointer.checkpoint: pointer for pointer in found.pointers}
        self.finals = {ack.key: ack for ack in found.finals}
        self.drains = found.drains

    @property
    def pointers(self) -> list[Pointer]:
        """Every checkpoint that was complete and is still written down, oldest first."""
        return [self._pointers[number] for number in sorted(self._pointers)]

    @property
    def newest(self) -> int:
        """The newest that was complete, damaged or not; 0: there was none."""
        return max(self._pointers, default=0)

    def pointer(self) -> Pointer | None:
        """That one."""
        return self._pointers.get(self.newest)

    def usable(self) -> Pointer | None:
        """The newest that is not known to be damaged, and is of this plan."""
        for pointer in reversed(self.pointers):
            if pointer.state != "damaged":
                return pointer
            if pointer.adopted:
                return None
        return None

    def kept(self) -> tuple[int, ...]:
        """The checkpoints whose files stay."""
        return tuple(sorted(self._pointers))

    def owed(self) -> Pointer | None:
        """The newest checkpoint that is complete, and not wholly published."""
        return next((p for p in reversed(self.pointers) if p.state == "complete"), None)

    def handles(self) -> Handles:
        """What is still owed, or else what the newest complete checkpoint has published."""
        found = self.owed() or self.pointer()
        return dict(found.handles) if found is not None else {}

    def abandoned(self, acks: Iterable[SnapshotAck], kept: Handles) -> CheckpointEffects:
        """Have removed what tasks prepared and nobody will publish, but what is `kept`."""
        unpublished = [ack.without_handles_up_to(self.newest) for ack in acks]
        handles = sorted(_handles_of(unpublished, kept).items())
        newest = self.handles()
        gone = [Abandon(n, each, newest.get(n, ()) + kept.get(n, ())) for n, each in handles]
        return [Persist((self.fence(),)), *gone] if gone else []

    def doubled(self, checkpoint: int) -> Handles:
        """What was published after a checkpoint: its rows come again when that is restored."""
        found: Handles = {}
        for pointer in self.pointers:
            for node, handles in pointer.handles if pointer.checkpoint > checkpoint else ():
                found[node] = found.get(node, ()) + handles
        return found

    # ---- changes

    def begin(self) -> Write:
        """Give the next number."""
        self.last += 1
        return last_row(self._job, self.last)

    def fence(self) -> Write:
        """What is written down already: one that leads no more can't, and gets no further."""
        return last_row(self._job, self.last)

    def complete(self, pointer: Pointer, finals: Iterable[SnapshotAck]) -> tuple[Write, ...]:
        """Put a checkpoint there, and drop what is too old, or damaged and followed by now.

        What tasks prepared before they ended (`finals`) is in it, and in no later one.
        """
        self._pointers[pointer.checkpoint] = pointer
        whole = [p.checkpoint for p in self.pointers if p.state != "damaged"]
        dropped = sorted(self._pointers.keys() - set(whole[-self._retained :]))
        for number in dropped:
            del self._pointers[number]
        return (
            pointer_row(self._job, pointer),
            *(no_pointer_row(self._job, number) for number in dropped),
            *(
                self.final(ack.without_handles_up_to(FINAL))
                for ack in finals
                if _handles_of([ack], {})
            ),
        )

    def published(self, checkpoint: int) -> Write:
        """All that a checkpoint owed is out."""
        pointer = replace(self._pointers[checkpoint], state="published")
        self._pointers[checkpoint] = pointer
        return pointer_row(self._job, pointer)

    def damaged(self, checkpoint: int, reason: str) -> Write:
        """A checkpoint can't be restored."""
        pointer = replace(self._pointers[checkpoint], state="damaged", reason=reason)
        self._pointers[checkpoint] = pointer
        return pointer_row(self._job, pointer)

    def final(self, ack: SnapshotAck) -> Write:
        """A task has ended."""
        self.finals[ack.key] = ack
        return final_row(self._job, ack)

    def drain(self, *, drains: bool = True) -> Write:
        """Its sources are to end, or to go on after all."""
        self.drains = drains
        return drain_row(self._job, drains=drains)

    def all_begin(self) -> tuple[Write, ...]:
        """All tasks start anew: none has ended."""
        writes = tuple(no_final_row(self._job, key) for key in sorted(self.finals))
        self.finals = {}
        return writes

    def clear(self) -> tuple[Write, ...]:
        """Forget everything."""
        finals = list(self.finals.values())
        writes = no_rows(self._job, Rows(self.last, self.pointers, finals, self.drains))
        self.last, self._pointers, self.finals, self.drains = 0, {}, {}, False
        return writes


def _handles_of(acks: Collection[SnapshotAck], but: Handles) -> Handles:
    """What acknowledgements tell of, each once, without those in `but`."""
    found: Handles = {}
    for snapshot in (s for ack in acks for s in ack.snapshots):
        known = found.get(snapshot.node, ())
        given = (h.data for h in snapshot.handles)
        new = [d for d in given if d not in known and d not in but.get(snapshot.node, ())]
        if new:
            found[snapshot.node] = (*known, *dict.fromkeys(new))
    return found
