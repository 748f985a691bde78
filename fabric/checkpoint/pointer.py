"""The pointer of a job in an object store: its newest checkpoint, and who may write the next one.

One job: `JobPointer` and `commit`, which makes a checkpoint be there by conditional writes alone:

    read the pointer ─► claim it, if an older coordinator has it ─► the manifest, if there is none
      ─► the pointer, if nobody has changed it since

Each write is refused when somebody else wrote meanwhile. A coordinator that was deposed, at
whatever step, finds the claim of the newer one: it changes neither the pointer nor a manifest of
that one. A manifest that is above the pointer is nobody's, and is replaced. Clocks play no part.
Who takes a job over claims it with `lead` before it does anything else: from there on the one
before commits nothing any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from fabric.checkpoint.codec import decode, encode, seal_of
from fabric.checkpoint.folder import plain
from fabric.checkpoint.manifest import Manifest, Seal
from fabric.checkpoint.object_layout import POINTER, manifest_key
from fabric.errors import DataError, FencedError, InternalError, NotFoundError, StorageError

VERSION = 1
TRIES_MAX, PAUSE_S = 10, 0.1
"""How often a pointer is claimed that others change meanwhile, and the pause between."""


class ConditionalStore(Protocol):
    """What `commit` needs of a `Bucket`."""

    def read(self, key: str) -> tuple[bytes, str]:
        """All of an object, and its tag."""

    def create(self, key: str, data: bytes) -> str | None:
        """Store an object; None when there is one."""

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Store an object in place of the one with this tag; None when there is another."""


@dataclass(frozen=True, slots=True)
class JobPointer:
    """`owner` is the job that runs the state now, `epoch` its coordinator's; then a checkpoint.

    An empty owner: whoever comes first. Checkpoint 0: there is none.
    """

    owner: str = ""
    epoch: int = 0
    checkpoint: int = 0
    n_bytes: int = 0
    crc32c: int = 0

    def is_of(self, owner: str) -> bool:
        """Whether the job `owner` may write here; an empty one: whoever asks."""
        return not owner or not self.owner or owner == self.owner

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True).encode()


def read_pointer(store: ConditionalStore, job: str) -> tuple[JobPointer, str]:
    """The pointer of a job and its tag; an empty one and "" when there is none.

    Raises
    ------
    DataError
        It is damaged, or of a newer version.
    """
    key = f"{plain(job)}/{POINTER}"
    try:
        data, tag = store.read(key)
    except NotFoundError:
        return JobPointer(), ""
    try:
        found = json.loads(data)
        if (version := found.pop("version")) != VERSION:
            raise DataError(f"{key} has format {version}, this Fabric reads format {VERSION}")
        return JobPointer(**found), tag
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{key} is damaged: {error}. It says which checkpoint is the newest; restore it"
        ) from error


def write_pointer(store: ConditionalStore, job: str, pointer: JobPointer, tag: str) -> str:
    """Put a pointer in place of the one with `tag`; its new tag.

    Raises
    ------
    FencedError
        Somebody else has changed it meanwhile.
    """
    made = _replaced(store, job, pointer, tag)
    if made is None:
        raise FencedError(_fenced(job, read_pointer(store, job)[0]))
    return made


def claim(store: ConditionalStore, job: str, owner: str) -> JobPointer:
    """Have `owner` run the state of `job` from now on, and nobody else write its checkpoints."""
    return _changed(store, job, lambda pointer: replace(pointer, owner=owner, epoch=0))[0]


def lead(store: ConditionalStore, job: str, owner: str, epoch: int) -> JobPointer:
    """Have the coordinator of `epoch` write the checkpoints for `owner`, and no older one.

    Raises
    ------
    FencedError
        A newer one, or another start of the stream, has taken over.
    """
    return _led(store, job, owner, epoch)[0]


def commit(store: ConditionalStore, manifest: Manifest, owner: str = "") -> Seal:
    """Make a checkpoint be there; again is fine.

    Raises
    ------
    FencedError
        Another coordinator, or another start of the stream, has taken the job over.
    InternalError
        The checkpoint is there, and says another thing.
    """
    data, job = encode(manifest), manifest.job
    pointer, tag = _led(store, job, owner, manifest.epoch)
    _put_manifest(store, manifest, data, pointer.checkpoint)
    seal = seal_of(data)
    if manifest.checkpoint >= pointer.checkpoint:
        made = replace(
            pointer, checkpoint=manifest.checkpoint, n_bytes=seal.n_bytes, crc32c=seal.crc32c
        )
        if made != pointer:
            write_pointer(store, job, made, tag)
    return seal


def _led(store: ConditionalStore, job: str, owner: str, epoch: int) -> tuple[JobPointer, str]:
    """The pointer and its tag, once it says that this coordinator leads."""

    def mine(pointer: JobPointer) -> JobPointer:
        if not pointer.is_of(owner) or (epoch and pointer.epoch > epoch):
            raise FencedError(_fenced(job, pointer))
        return replace(pointer, owner=owner or pointer.owner, epoch=epoch)

    return _changed(store, job, mine)


def _changed(
    store: ConditionalStore, job: str, change: Callable[[JobPointer], JobPointer]
) -> tuple[JobPointer, str]:
    """The pointer and its tag, once it is as `change` makes it of what is there."""
    for _ in range(TRIES_MAX):
        pointer, tag = read_pointer(store, job)
        wanted = change(pointer)
        if wanted == pointer and tag:
            return wanted, tag
        if (now := _replaced(store, job, wanted, tag)) is not None:
            return wanted, now
        time.sleep(PAUSE_S)
    raise StorageError(
        f"the pointer to the checkpoints of {job} was changed by others {TRIES_MAX} times in a "
        "row; do several coordinators run this job, or does the store refuse every If-Match?"
    )


def _replaced(store: ConditionalStore, job: str, pointer: JobPointer, tag: str) -> str | None:
    """Put a pointer in place of the one with `tag`; its tag, or None: that is there no more."""
    key, data = f"{plain(job)}/{POINTER}", pointer.encode()
    made = store.replace(key, data, tag) if tag else store.create(key, data)
    if made is None:
        there, now = read_pointer(store, job)
        return now if there == pointer and now else None  # the answer to the first try was lost
    return made


def _put_manifest(store: ConditionalStore, manifest: Manifest, data: bytes, newest: int) -> None:
    key = manifest_key(manifest.job, manifest.checkpoint)
    if store.create(key, data) is not None:
        return
    there, tag = store.read(key)
    if there == data:
        return
    other = decode(there, key)
    if other.epoch > manifest.epoch:
        raise FencedError(_fenced(manifest.job, JobPointer(epoch=other.epoch)))
    if manifest.checkpoint <= newest or 0 < manifest.epoch == other.epoch:
        raise InternalError(f"{key} is there, and says another thing")
    if store.replace(key, data, tag) is None and store.read(key)[0] != data:
        raise FencedError(_fenced(manifest.job, JobPointer()))


def _fenced(job: str, pointer: JobPointer) -> str:
    who = f"the coordinator of epoch {pointer.epoch}" if pointer.epoch else "another coordinator"
    return (
        f"the checkpoints of {job} are written by {who} now"
        + (f", for {pointer.owner}" if pointer.owner else "")
        + "; this coordinator has been superseded and can no longer write checkpoints"
    )
