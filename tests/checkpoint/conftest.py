"""Manifests, acknowledgements and savepoints of any content."""

from __future__ import annotations

from hypothesis import strategies as st

from fabric.checkpoint.manifest import (
    BYTES_MAX,
    FINAL,
    GROUPS_MAX,
    FileRecord,
    Manifest,
    NodeRecord,
    Savepoint,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)

NUMBERS = st.integers(0, FINAL)
TEXTS = st.text(max_size=6)
BYTES = st.binary(max_size=8)
NAMES = st.from_regex(r"[a-z0-9_][a-z0-9_.\-]{0,5}", fullmatch=True)


def rising(each: st.SearchStrategy, key: object = None) -> st.SearchStrategy:
    """A few, in order, none twice."""
    lists = st.lists(each, max_size=3, unique_by=key)  # type: ignore[call-overload]
    return lists.map(lambda found: tuple(sorted(found, key=key)))  # type: ignore[arg-type]


FILES = rising(
    st.builds(FileRecord, NAMES, st.integers(0, BYTES_MAX), st.integers(0, 2**32 - 1), TEXTS),
    lambda f: f.name,
)
HANDLES = st.lists(st.builds(SinkHandle, st.integers(1, FINAL), BYTES), max_size=2).map(tuple)
SNAPSHOTS = st.builds(
    TaskSnapshot,
    TEXTS,
    st.integers(0, 3),
    NUMBERS,
    st.builds(lambda a, n: range(a, a + n), st.integers(0, 9), st.integers(0, 9)),
    FILES,
    rising(st.tuples(TEXTS, BYTES), lambda pair: pair[0]),
    HANDLES,
)
MANIFESTS = st.builds(
    Manifest,
    job=TEXTS,
    checkpoint=st.integers(1, FINAL),
    epoch=NUMBERS,
    run=NUMBERS,
    wall_us=NUMBERS,
    tasks=rising(SNAPSHOTS, lambda task: (task.node, task.task)),
    nodes=rising(st.builds(NodeRecord, TEXTS, TEXTS, TEXTS), lambda node: node.path),
)
ACKS = st.builds(
    SnapshotAck,
    st.integers(1, FINAL - 1),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    rising(SNAPSHOTS, lambda task: task.node),
    NUMBERS,
)
LABELS = st.text(min_size=1, max_size=9).filter(
    lambda name: name.isprintable() and name == name.strip() and "/" not in name
)
SAVEPOINTS = st.builds(
    Savepoint,
    name=LABELS,
    stream=TEXTS,
    job_name=TEXTS,
    plan=TEXTS,
    key_groups=st.integers(18, GROUPS_MAX),
    release=TEXTS,
    created_us=NUMBERS,
    manifest=MANIFESTS,
).map(Savepoint.without_handles)
