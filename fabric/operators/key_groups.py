"""Which key groups a task owns: partition of `n` is ``key_group * n >> 15``.

One job: the range of groups of one task, so that state moves in ranges when the number changes.
"""

from __future__ import annotations

N_KEY_GROUPS = 1 << 15
HASH_SHIFT = 49
"""A key's group is the upper 15 bits of its hash."""


def key_groups(task: int, n_tasks: int) -> range:
    """The groups whose rows go to partition `task` of `n_tasks`.

    >>> key_groups(0, 3), key_groups(1, 3)
    (range(0, 10923), range(10923, 21846))
    """
    return range(_first(task, n_tasks), _first(task + 1, n_tasks))


def hashes_of(groups: range) -> tuple[int, int]:
    """The hashes of keys in these groups: from the first on, up to the second.

    >>> hashes_of(range(0, 1 << 15)) == (0, 1 << 64), hashes_of(range(1, 2)) == (1 << 49, 1 << 50)
    (True, True)
    """
    return groups.start << HASH_SHIFT, groups.stop << HASH_SHIFT


def _first(task: int, n_tasks: int) -> int:
    return -(-task * N_KEY_GROUPS // n_tasks)
