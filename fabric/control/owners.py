"""Who owns which partition of a dataset.

One job: read the flat list of a `DatasetLocation`, where partition p has the owners
``owners[p * n : (p + 1) * n]`` of n replicas, all different, "" for a place without one.
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
