"""Writes on their way into a store, past the failpoints of what they hold.

One job: `write_down`. Tests kill a coordinator just before or after a job, its tasks or a dataset's
commit is written down; which of those it is, the tables say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric import failpoints
from fabric.coordinator.metadata.store import MetadataStore, Write

_BEFORE = {"datasets": "coordinator.committing"}
_AFTER = {
    "datasets": "coordinator.committed",
    "jobs": "coordinator.job-persisted",
    "tasks": "coordinator.tasks-persisted",
}


def write_down(store: MetadataStore, writes: Sequence[Write]) -> None:
    """All of `writes` or, with a `StorageError`, none."""
    tables = sorted({write.table for write in writes if write.value is not None})
    _pass_by(_BEFORE, tables)
    store.apply(writes)
    _pass_by(_AFTER, tables)


def _pass_by(points: Mapping[str, str], tables: Sequence[str]) -> None:
    for table in tables:
        if table in points:
            failpoints.reach(points[table])
