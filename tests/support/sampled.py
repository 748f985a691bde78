"""A few of many cases in `make test`, all of them in `make soak`.

One job: `sampled`. Which few, ``FABRIC_SEED`` decides (1 unless set), so that a run can be repeated
and another one can try others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SOAK = bool(os.environ.get("FABRIC_SOAK"))
SEED = int(os.environ.get("FABRIC_SEED") or 1)


def sampled(cases: Sequence[T], n: int, *, salt: str = "") -> list[T]:
    """`n` of `cases`, in their order; all with ``FABRIC_SOAK=1``.

    >>> sampled([1, 2, 3], 3)
    [1, 2, 3]
    """
    if SOAK or n >= len(cases):
        return list(cases)
    chosen = random.Random(f"{SEED} {salt}").sample(range(len(cases)), n)
    return [cases[i] for i in sorted(chosen)]
