"""What a `DatasetLocation` says: who owns which partition, and whether the dataset is a view.

The owners are a flat list: partition p has ``owners[p * n : (p + 1) * n]`` of n replicas, all
different, "" for a place without one.

A view has one part, whose transaction says the job, the run and the moment:
``view.job-1a.3.17`` for a checkpoint, ``view.job-1a.3.final`` for the end. While the job runs, the
dataset ``<name>.live`` of ``view.job-1a.3.live`` has what the tasks of the view have now.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.control.control_pb2 import DatasetLocation


def n_replicas(location: DatasetLocation) -> int:
    """Owners of each partition; what was written before there were replicas has one."""
    return location.replicas or 1


def owners_of(location: DatasetLocation, partition: int) -> list[str]:
    """The agents that own one partition.

    >>> location = DatasetLocation(n_partitions=2, replicas=2, owners=["a", "b", "", "c"])
    >>> owners_of(location, 0), owners_of(location, 1)
    (['a', 'b'], ['c'])
    """
    n = n_replicas(location)
    return [owner for owner in location.owners[partition * n : (partition + 1) * n] if owner]


def by_partition(location: DatasetLocation) -> Iterator[list[str]]:
    """The owners of every partition, in order."""
    return (owners_of(location, partition) for partition in range(location.n_partitions))


def all_owners(location: DatasetLocation) -> list[str]:
    """Every agent that owns a partition, by id."""
    return sorted({owner for owner in location.owners if owner})


def n_lacking(location: DatasetLocation, attached: set[str]) -> int:
    """Partitions with fewer owners among the `attached` agents than there are replicas."""
    n = n_replicas(location)
    return sum(len(attached.intersection(owners)) < n for owners in by_partition(location))


STATE = "state."
"""What the datasets begin with that states of streams are read as; they are in no catalogue."""
VIEW = "view."
"""What transactions and makers of views begin with."""
FINAL, LIVE = "final", "live"
"""Moments without a number."""


def live_name(name: str) -> str:
    """The dataset that has what the tasks of view `name` have now."""
    return f"{name}.{LIVE}"


def moment_of(transaction: str) -> str:
    """The checkpoint that a view's transaction names, `FINAL` or `LIVE`.

    >>> moment_of("view.job-1a.3.17"), moment_of("view.job-1a.3.live") == LIVE
    ('17', True)
    """
    return transaction.rpartition(".")[2]


def job_of(location: DatasetLocation) -> str:
    """The job that keeps a view, or kept it; "" of a dataset that is none.

    >>> job_of(DatasetLocation(made_by="view.job-1a")), job_of(DatasetLocation())
    ('job-1a', '')
    """
    return location.made_by.removeprefix(VIEW) if location.made_by.startswith(VIEW) else ""


def is_kept(location: DatasetLocation) -> bool:
    """Whether it is a view whose rows a job keeps, so that they change."""
    return bool(job_of(location)) and moment_of(location.parts[0].transaction) != FINAL


def is_live(location: DatasetLocation) -> bool:
    """Whether it is what the tasks of a view have now: its rows are not counted."""
    return is_kept(location) and moment_of(location.parts[0].transaction) == LIVE
