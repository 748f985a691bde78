"""Mutated manifests and acknowledgements of checkpoints, with checksums that are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from fabric._cython.shuffle.checksum import crc32c
from fabric.checkpoint import codec
from fabric.checkpoint.manifest import (
    FINAL,
    FileRecord,
    Manifest,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.errors import DataError
from tests.support.hostile import Hostile
from tests.support.sampled import SEED, SOAK

N = 50_000 if SOAK else 600

MANIFEST = Manifest(
    job="job-1", checkpoint=3, epoch=1, run=0, wall_us=1,
    tasks=(
        TaskSnapshot(
            "by", 0, 0, range(8), (FileRecord("a", 3, 7, "x"),), (("s", b"1"),),
            (SinkHandle(3, b"h"),),
        ),
    ),
)  # fmt: skip
ACK = SnapshotAck(checkpoint=3, stage=0, task=0, attempt=0, epoch=1, snapshots=MANIFEST.tasks)


@pytest.mark.parametrize("which", ["manifest", "ack"])
def test_manifests(which: str) -> None:
    """Their checksums are right: what lies behind is read, or refused by name."""
    data = codec.encode(MANIFEST) if which == "manifest" else codec.encode_snapshot_ack(ACK)
    read: Callable[[bytes, str], object] = (
        codec.decode if which == "manifest" else codec.decode_snapshot_ack
    )
    line, _, body = data.partition(b"\n")
    kind, version, *_ = line.split(b" ")
    fields = json.loads(body)
    for number in range(N):
        hostile = Hostile(f"{SEED} {which} {number}", {"node": ["by"], "checkpoint": [3, FINAL]})
        changed = hostile.json([fields, *fields.get("tasks", []), *fields.get("snapshots", [])])
        if hostile.often(0.5):
            changed = json.dumps({**fields, **hostile.inner(fields)}).encode()
        head = b"%s %s %d " % (kind, version, len(changed))
        sealed = b"%s%08x\n%s" % (head, crc32c(head + changed), changed)
        with suppress(DataError):
            read(sealed if hostile.often(0.9) else hostile.damaged(sealed), "it")
