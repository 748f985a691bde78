"""What lies outside of agents and coordinators of a stream: its checkpoints, and its sink.

One job: `Outside`, which keeps manifests and what sinks prepared and published, and checks what it
is given: a manifest is one cut through all tasks of one parallelism, no row is seen twice, and
nothing is published that somebody was told to remove. The rows are those of `Source`, which may be
made again from any position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.effects import (
    ExportSavepoint,
    RemoveCheckpoints,
    Verify,
    WriteManifest,
)
from fabric.coordinator.core.events import (
    CheckpointVerified,
    ManifestWritten,
    SavepointWritten,
    Stored,
)
from fabric.errors import DataError, StorageError
from fabric.operators.snapshots import N_KEY_GROUPS, key_groups
from tests.support.sim.invariants import Violation
from tests.support.sim.stream_plan import COUNT, OUT, PLACES, SCAN, Row, key_of

Change = tuple[int, int, int, int]
"""A row, its key, and how many rows of this key there are with it."""


def check(holds: bool, what: str) -> None:
    """Raise `Violation` when it does not hold."""
    if not holds:
        raise Violation(what)


@dataclass
class Source:
    """Splits that end at `ends`, those `held` not before `release`."""

    ends: tuple[int, ...]
    held: frozenset[int]
    released: bool = False

    def limit(self, split: int) -> int:
        """How many rows there are by now."""
        return self.ends[split] - (split in self.held and not self.released)

    def has_ended(self, split: int, position: int) -> bool:
        """Whether no more rows will come."""
        return position >= self.ends[split]


class Outside:
    """Of one job."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.manifests: dict[int, Manifest] = {}
        self.damaged: set[int] = set()
        self.published: dict[bytes, None] = {}
        self.rows: dict[Row, None] = {}
        """Those that everybody sees."""
        self.happened: Counter[str] = Counter()
        self._made: dict[bytes, tuple[Change, ...]] = {}
        self._removed: set[bytes] = set()

    # ---- the sink

    def prepare(self, changes: list[Change]) -> bytes:
        """Put rows where nobody sees them; returns their handle."""
        handle = b"%d" % len(self._made)
        self._made[handle] = tuple(changes)
        return handle

    def publish(self, handles: list[bytes]) -> None:
        """Have everybody see these; again is fine."""
        for handle in handles:
            if handle in self.published:
                continue
            check(handle not in self._removed, "what was removed is published")
            self.published[handle] = None
            for row in self._rows_of(handle):
                check(row not in self.rows, f"row {row} is seen twice")
                self.rows[row] = None

    def take_back(self, handles: list[bytes], kept: list[bytes]) -> None:
        """Have nobody see these any more; again is fine."""
        self.happened["taken back"] += 1
        for handle in handles:
            if handle in self.published and handle not in kept:
                del self.published[handle]
                for row in self._rows_of(handle):
                    del self.rows[row]

    def drop(self, handles: list[bytes], kept: list[bytes]) -> None:
        """Remove what nobody will publish."""
        gone = set(handles) - set(kept)
        check(not gone & self.published.keys(), "what is seen was removed")
        self._removed |= gone

    def discard(self) -> None:
        """The job has ended: all goes that was not published."""
        self._removed |= self._made.keys() - self.published.keys()

    def _rows_of(self, handle: bytes) -> list[Row]:
        return [change[:2] for change in self._made[handle]]

    # ---- the storage

    def work(self, job: str, order: object, chance: Callable[[float], bool]) -> Stored | None:
        """Do what a coordinator orders; returns what it is told, which may be that it failed."""
        away = StorageError("the storage is away")
        match order:
            case WriteManifest(manifest=manifest):
                n = manifest.checkpoint
                return ManifestWritten(job, n, away if chance(0.1) else self._write(manifest))
            case Verify(checkpoint=n):
                return CheckpointVerified(job, n, away if chance(0.1) else self._verify(n))
            case ExportSavepoint(name=name, checkpoint=n):
                check(n in self.manifests, "a checkpoint was removed before it was kept")
                told = pb.SavepointStatus(name=name, checkpoint=n)
                return SavepointWritten(job, n, name, away if chance(0.2) else told)
            case RemoveCheckpoints(keep=keep, below=below):
                there = self.manifests.items()
                self.manifests = {n: m for n, m in there if n >= below or n in keep}
        return None

    def _write(self, manifest: Manifest) -> Seal:
        check(manifest.checkpoint not in self.manifests, "a checkpoint is stored twice")
        self._check_cut(manifest)
        self.manifests[manifest.checkpoint] = manifest
        return self._seal(manifest.checkpoint)

    def _verify(self, checkpoint: int) -> tuple[Manifest, Seal] | DataError:
        check(checkpoint in self.manifests, "a checkpoint was removed too early")
        if checkpoint in self.damaged:
            return DataError("a file differs")
        return self.manifests[checkpoint], self._seal(checkpoint)

    def load(self, stream: pb.StreamDeploy) -> Manifest | None:
        """What a task is told to begin from; None: from the beginning."""
        if not stream.checkpoint:
            return None
        told = Seal(stream.seal_bytes, stream.seal_crc32c)
        check(told == self._seal(stream.checkpoint), "a task is told of another manifest")
        return self.manifests[stream.checkpoint]

    @staticmethod
    def _seal(checkpoint: int) -> Seal:
        return Seal(100 + checkpoint, checkpoint)

    # ---- what must hold

    def _check_cut(self, manifest: Manifest) -> None:
        """It holds the rows before its positions: in flight, or counted, and seen then."""
        at = {int(split): int(place) for split, place in manifest.positions(SCAN).items()}
        n_splits = len(self.source.ends)
        check(sorted(at) == list(range(n_splits)), f"splits are missing: only {at}")
        check(len(_positions(manifest, SCAN)) == n_splits, "two tasks have the same split")
        before = {(split, row) for split, place in at.items() for row in range(place)}
        texts = [text for task in manifest.inflight() for _, text in task.positions]
        inflight = [divmod(int(text.partition(b":")[2]), PLACES) for text in texts]
        check(len(set(inflight)) == len(inflight), "a row is in flight twice")
        check(before.issuperset(inflight), "a row is in flight that was not read")
        n_left = sum(self.source.ends) - len(before)
        before.difference_update(inflight)
        prepared = [row for h in manifest.handles().get(OUT, ()) for row in self._rows_of(h)]
        seen = sorted([*self.rows, *prepared])
        check(seen == sorted(before), "what will be seen is not what was read")
        groups = [t.key_groups for t in manifest.of_node(COUNT)]
        if not n_left and sum(map(len, groups)) < N_KEY_GROUPS:
            return  # tasks that have ended keep no counts
        check(groups == [key_groups(n, len(groups)) for n in range(len(groups))], f"{groups}")
        counts = _positions(manifest, COUNT)
        check(len(dict(counts)) == len(counts), "a key was counted by two tasks")
        counted = Counter({int(key): int(n) for key, n in counts})
        check(counted == Counter(map(key_of, before)), "the counts are not those of the rows")

    def check_whole(self) -> None:
        """Every row is seen once, and was counted once."""
        ends = self.source.ends
        every = {(split, row) for split, end in enumerate(ends) for row in range(end)}
        check(self.rows.keys() == every, f"{len(every - self.rows.keys())} rows are missing")
        totals: Counter[int] = Counter()
        counted = sorted((c[2], c[3]) for handle in self.published for c in self._made[handle])
        totals.update(key for key, _ in counted)
        expected = sorted((key, n) for key, total in totals.items() for n in range(1, total + 1))
        check(counted == expected, "counts come twice, or are missing")


def _positions(manifest: Manifest, node: str) -> list[tuple[str, bytes]]:
    return [one for task in manifest.of_node(node) for one in task.positions]
