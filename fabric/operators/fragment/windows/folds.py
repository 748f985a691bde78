"""Folds of overlapping frames, without subtracting what leaves.

One job: `fold`. Blocks of 1, 2, 4, ... rows are combined once, beginning at every row; a frame of
n rows is put together from the blocks that n's bits say. O(rows log frame) for any frames, exact
as far as the combination is: NaN and infinities stay in the frames they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fabric.operators.fragment.aggregates.segments import Ints

State = Sequence[Any]
"""Columns of numbers, one value a row or frame."""
Combine = Callable[[State, State], State]


def fold(combine: Combine, empty: Sequence[Any], rows: State, begin: Ints, end: Ints) -> State:
    """The state of each frame ``begin:end``, from a state a row.

    >>> frames = np.array([0, 0, 1]), np.array([1, 3, 1])
    >>> (total,) = fold(added, [0.0], [np.array([1.0, 2.0, 4.0])], *frames)
    >>> total.tolist()
    [1.0, 7.0, 0.0]
    """
    found = [np.full(len(begin), v, r.dtype) for v, r in zip(empty, rows, strict=True)]
    place, length = begin.copy(), end - begin
    level, blocks = 0, rows
    longest = int(length.max(initial=0))
    with np.errstate(all="ignore"):
        while longest >> level:
            having = np.flatnonzero((length >> level) & 1)
            before = [column[having] for column in found]
            after = [column[place[having]] for column in blocks]
            for column, values in zip(found, combine(before, after), strict=True):
                column[having] = values
            place[having] += 1 << level
            if longest >> (level + 1):
                step = 1 << level
                blocks = combine([c[:-step] for c in blocks], [c[step:] for c in blocks])
            level += 1
    return found


def added(a: State, b: State) -> State:
    """Sums."""
    return [x + y for x, y in zip(a, b, strict=True)]


def largest(a: State, b: State) -> State:
    """Maxima."""
    return [np.maximum(x, y) for x, y in zip(a, b, strict=True)]


def smallest(a: State, b: State) -> State:
    """Minima."""
    return [np.minimum(x, y) for x, y in zip(a, b, strict=True)]


def moments(a: State, b: State) -> State:
    """Count, mean and the second to fourth power sums of deviations (Pébay, 2008)."""
    na, ma, a2, a3, a4 = a
    nb, mb, b2, b3, b4 = b
    n = na + nb
    safe = np.maximum(n, 1)
    d = np.where((na > 0) & (nb > 0), mb - ma, 0.0)
    r, both = d / safe, na * nb
    mean = np.where(na > 0, ma + np.where(nb > 0, r * nb, 0.0), mb)
    m2 = a2 + b2 + d * r * both
    m3 = a3 + b3 + d * r * r * both * (na - nb) + 3 * r * (na * b2 - nb * a2)
    m4 = (
        a4 + b4 + d * r**3 * both * (na * na - both + nb * nb)
        + 6 * r * r * (na * na * b2 + nb * nb * a2) + 4 * r * (na * b3 - nb * a3)
    )  # fmt: skip
    return [n, mean, m2, m3, m4]


def co_moments(a: State, b: State) -> State:
    """Count, both means, both second power sums and the sum of products of deviations."""
    na, xa, ya, xxa, yya, xya = a
    nb, xb, yb, xxb, yyb, xyb = b
    n = na + nb
    weight = na * nb / np.maximum(n, 1)
    some = (na > 0) & (nb > 0)
    dx, dy = np.where(some, xb - xa, 0.0), np.where(some, yb - ya, 0.0)
    share = nb / np.maximum(n, 1)
    return [
        n,
        np.where(na > 0, xa + dx * share, xb),
        np.where(na > 0, ya + dy * share, yb),
        xxa + xxb + dx * dx * weight,
        yya + yyb + dy * dy * weight,
        xya + xyb + dx * dy * weight,
    ]
