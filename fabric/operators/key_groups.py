"""Which key groups a task owns: partition of `n` is ``key_group * n >> 15``.

One job: the range of groups of one task, so that state moves in ranges when the number changes.
"""

from __future__ import annotations

N_KEY_GROUPS = 1 << 15


def key_groups(task: int, n_tasks: int) -> range:
    """The groups whose rows go to partition `task` of `n_tasks`.

    >>> key_groups(0, 3), key_groups(1, 3)
    (range(0, 10923), range(10923, 21846))
    """
    return range(_first(task, n_tasks), _first(task + 1, n_tasks))


def _first(task: int, n_tasks: int) -> int:
    return -(-task * N_KEY_GROUPS // n_tasks)
