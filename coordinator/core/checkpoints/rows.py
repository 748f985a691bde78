"""What is written down of a job's checkpoints, in the table ``checkpoints``.

    <job>/last                     the highest number that was given to a checkpoint
    <job>/checkpoint/<number>      a complete checkpoint: its seal, its handles, if they are out
    <job>/final/<stage>.<task>     the last acknowledgement of a task that has ended
    <job>/drain                    its sources are to end; there is no such row when they are not

One job: `Pointer`, and rows from and to bytes. A number is written down before any task hears it,
so no two checkpoints ever have the same one, whoever coordinates.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from fabric.checkpoint.codec import decode_snapshot_ack, encode_snapshot_ack
from fabric.checkpoint.manifest import Manifest, Seal, SnapshotAck
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.planner.stages import Key

State = Literal["complete", "published", "damaged"]
_LAST, _CHECKPOINT, _FINAL, _DRAIN = "last", "checkpoint/", "final/", "drain"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A complete checkpoint; `handles` is what is, or was, to be published, by node.

    With one that is `adopted` another plan begins: those before it are of no use to it.
    """

    checkpoint: int
    seal: Seal
    state: State
    handles: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    n_bytes: int = 0
    n_files: int = 0
    begun_us: int = 0
    seconds: float = 0.0
    reason: str = ""
    """Why it is damaged."""
    adopted: bool = False
    unaligned: bool = False
    n_inflight_bytes: int = 0

    @classmethod
    def of(
        cls, manifest: Manifest, seal: Seal, seconds: float, *, unaligned: bool = False
    ) -> Pointer:
        """A checkpoint that is complete now; one with rows in flight was `unaligned`."""
        handles = tuple(sorted(manifest.handles().items()))
        return cls(
            manifest.checkpoint,
            seal,
            "complete" if handles else "published",
            handles,
            manifest.n_bytes,
            manifest.n_files,
            manifest.wall_us,
            seconds,
            adopted=manifest.is_adopted,
            unaligned=unaligned or bool(manifest.inflight()),
            n_inflight_bytes=manifest.n_inflight_bytes,
        )


@dataclass(slots=True)
class Rows:
    """What an earlier coordinator wrote down."""

    last: int = 0
    pointers: list[Pointer] = field(default_factory=list)
    finals: list[SnapshotAck] = field(default_factory=list)
    drains: bool = False


def rows_of(job: str, rows: Iterable[tuple[str, bytes]]) -> Rows:
    """Read the rows of a job, in any order."""
    found = Rows()
    for key, value in sorted(rows):
        name = key.removeprefix(f"{job}/")
        if name == _LAST:
            found.last = int(value)
        elif name == _DRAIN:
            found.drains = True
        elif name.startswith(_CHECKPOINT):
            found.pointers.append(_pointer(json.loads(value)))
        elif name.startswith(_FINAL):
            found.finals.append(decode_snapshot_ack(value, key))
    return found


def last_row(job: str, number: int) -> Write:
    """The highest number that was given."""
    return Write("checkpoints", f"{job}/{_LAST}", b"%d" % number)


def pointer_row(job: str, pointer: Pointer) -> Write:
    """A complete checkpoint."""
    value = json.dumps(_fields(pointer), sort_keys=True, separators=(",", ":")).encode()
    return Write("checkpoints", _pointer_key(job, pointer.checkpoint), value)


def no_pointer_row(job: str, checkpoint: int) -> Write:
    """It is no checkpoint any more."""
    return Write("checkpoints", _pointer_key(job, checkpoint), None)


def final_row(job: str, ack: SnapshotAck) -> Write:
    """The last word of a task."""
    return Write("checkpoints", _final_key(job, ack.key), encode_snapshot_ack(ack))


def no_final_row(job: str, key: Key) -> Write:
    """The task runs again."""
    return Write("checkpoints", _final_key(job, key), None)


def drain_row(job: str, *, drains: bool) -> Write:
    """Whether its sources are to end."""
    return Write("checkpoints", f"{job}/{_DRAIN}", b"1" if drains else None)


def no_rows(job: str, rows: Rows) -> tuple[Write, ...]:
    """Nothing of the job is left."""
    keys = [_pointer_key(job, pointer.checkpoint) for pointer in rows.pointers]
    keys += [_final_key(job, ack.key) for ack in rows.finals]
    keys += [f"{job}/{_DRAIN}"] if rows.drains else []
    return tuple(Write("checkpoints", key, None) for key in (f"{job}/{_LAST}", *keys))


def _pointer_key(job: str, checkpoint: int) -> str:
    return f"{job}/{_CHECKPOINT}{checkpoint:020}"


def _final_key(job: str, key: Key) -> str:
    return f"{job}/{_FINAL}{key[0]:06}.{key[1]:06}"


def _fields(pointer: Pointer) -> dict[str, Any]:
    return {
        "checkpoint": pointer.checkpoint, "state": pointer.state,
        "seal": [pointer.seal.n_bytes, pointer.seal.crc32c],
        "handles": [
            [node, [base64.b64encode(data).decode() for data in handles]]
            for node, handles in pointer.handles
        ],
        "bytes": pointer.n_bytes, "files": pointer.n_files, "begun_us": pointer.begun_us,
        "seconds": pointer.seconds, "reason": pointer.reason, "adopted": pointer.adopted,
        "unaligned": pointer.unaligned, "inflight": pointer.n_inflight_bytes,
    }  # fmt: skip


def _pointer(fields: dict[str, Any]) -> Pointer:
    return Pointer(
        checkpoint=fields["checkpoint"],
        seal=Seal(*fields["seal"]),
        state=fields["state"],
        handles=tuple(
            (node, tuple(base64.b64decode(data) for data in handles))
            for node, handles in fields["handles"]
        ),
        n_bytes=fields["bytes"],
        n_files=fields["files"],
        begun_us=fields["begun_us"],
        seconds=fields["seconds"],
        reason=fields["reason"],
        adopted=fields.get("adopted", False),  # earlier releases adopt none
        unaligned=fields.get("unaligned", False),
        n_inflight_bytes=fields.get("inflight", 0),
    )
