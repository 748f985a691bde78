"""Which agents own the partitions of a dataset with several replicas.

One job: pure choices over the flat list of owners (`fabric.control.datasets`): the first owners,
the owners two versions have in common, and who takes over from an agent that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fabric.errors import ConfigError


def spread_out(agents: Collection[str], n_partitions: int, n_replicas: int) -> tuple[str, ...]:
    """Owners of new partitions: round the agents, the replicas of one on those that follow.

    >>> spread_out(["a", "b", "c"], 2, 2)
    ('a', 'b', 'b', 'c')
    """
    ring = sorted(agents)
    check_count(n_replicas, len(ring))
    return tuple(
        ring[(partition + replica) % len(ring)]
        for partition in range(n_partitions)
        for replica in range(n_replicas)
    )


def check_count(n_replicas: int, n_agents: int) -> None:
    """Refuse more replicas than there are agents: two of them would lie with one."""
    if n_replicas > n_agents:
        raise ConfigError(
            f"replicas={n_replicas} needs as many agents, and {n_agents} "
            f"{'is' if n_agents == 1 else 'are'} attached; start more, or write fewer replicas"
        )


def in_common(one: Sequence[str], other: Sequence[str], n_replicas: int) -> tuple[str, ...] | None:
    """The owners that are in both lists, "" where they differ; None when a partition has none.

    >>> in_common(["a", "b"], ["c", "a"], 2)
    ('a', '')
    >>> in_common(["a", "b"], ["c", "d"], 2) is None
    True
    """
    if len(one) != len(other):
        return None
    found: list[str] = []
    for begin in range(0, len(one), n_replicas):
        there = other[begin : begin + n_replicas]
        kept = [owner if owner in there else "" for owner in one[begin : begin + n_replicas]]
        if not any(kept):
            return None
        found += kept
    return tuple(found)


def successor(candidates: Collection[str], load: Mapping[str, tuple[int, int]]) -> str:
    """Which of the candidates is to own one partition more: that with the least `load`.

    >>> successor(["b", "c"], {"b": (2, 9), "c": (1, 9)})
    'c'
    """
    return min(sorted(candidates), key=load.__getitem__)
