"""The order of rows, found by sorting machine words.

    word:  | first bits of the keys | number of the row |

One job: `order_of`. Each key becomes an unsigned number of as few bits as its values need; as many
bits as have room stand in a word before the row's number, and numpy sorts the words with vector
instructions. Rows that are still equal go on alone, with the bits that follow. Equal rows keep
their order. A third of the time of a comparison sort of rows, for keys of a fixed width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.operators.fragment.aggregates.segments import order_keys, valid
from fabric.plan.expr import SortKey

Words = NDArray[np.uint64]
Rows = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _Part:
    """One number a row, each below ``2 ** bits``."""

    values: Words
    bits: int


def has_words(dtype: pa.DataType) -> bool:
    """Whether keys of this type are numbers."""
    fixed = t.is_integer(dtype) or t.is_floating(dtype) or t.is_boolean(dtype)
    return bool(fixed or (t.is_temporal(dtype) and not t.is_interval(dtype)))


def order_of(columns: Sequence[pa.Array], keys: Sequence[SortKey]) -> Rows:
    """The rows in the order of `keys`, whose values are `columns`; fewer than 2 ** 31.

    >>> order_of([pa.array([3, None, 1, 3])], [SortKey(None, True, True)]).tolist()
    [0, 3, 2, 1]
    """
    parts = [part for c, key in zip(columns, keys, strict=True) for part in _parts(c, key)]
    order: Rows = np.arange(len(columns[0]), dtype=np.uint32)
    rows, places, groups = order, None, None
    while len(rows) > 1 and parts:
        words, parts = _packed(groups, parts, rows if places is not None else None, len(rows))
        shift = np.uint64(_bits(len(rows) - 1))
        words.sort()
        found = (words & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.uint32)
        if places is None:
            order = rows = found
        else:
            order[places] = rows = rows[found]
        if not parts:
            break
        words >>= shift
        same = words[1:] == words[:-1]
        tied = np.zeros(len(rows), np.bool_)
        tied[1:] = same
        first = ~tied
        tied[:-1] |= same
        places = np.flatnonzero(tied) if places is None else places[tied]
        rows = rows[tied]
        groups = np.cumsum(first[tied], dtype=np.uint64) - np.uint64(1)
    return order


def _packed(
    groups: Words | None, parts: list[_Part], rows: Rows | None, n_rows: int
) -> tuple[Words, list[_Part]]:
    """Words of the groups, the first bits of `parts` and the row's place; and what is left."""
    shift = _bits(n_rows - 1)
    room = 64 - shift - (0 if groups is None else _bits(int(groups[-1])))
    words, left = groups, list(parts)
    while room and left:
        part = left.pop(0)
        taken = min(room, part.bits)
        rest = part.bits - taken
        values = (part.values if rows is None else part.values[rows]) >> np.uint64(rest)
        if words is not None:
            words <<= np.uint64(taken)
            values |= words
        words = values
        room -= taken
        if rest:
            mask = (np.uint64(1) << np.uint64(rest)) - np.uint64(1)
            left.insert(0, _Part(part.values & mask, rest))
    assert words is not None
    words <<= np.uint64(shift)
    words |= np.arange(n_rows, dtype=np.uint64)
    return words, left


def _parts(column: pa.Array, key: SortKey) -> list[_Part]:
    """Where the nulls are, then the values; what is the same in all rows is left out."""
    found = []
    numbers = order_keys(column.drop_null() if column.null_count else column)[0]
    if not len(numbers):
        return []
    least, most = int(numbers.min()), int(numbers.max())
    base = np.uint64((most if key.descending else least) & ((1 << 64) - 1))
    unsigned = numbers.view(np.uint64)
    values = base - unsigned if key.descending else unsigned - base
    if column.null_count:
        kept = valid(column)
        found.append(_Part((~kept if key.nulls_last else kept).astype(np.uint64), 1))
        whole = np.zeros(len(column), np.uint64)
        whole[kept] = values
        values = whole
    if most > least:
        found.append(_Part(values, _bits(most - least)))
    return found


def _bits(most: int) -> int:
    """How many bits numbers up to `most` have.

    >>> _bits(0), _bits(1), _bits(255)
    (0, 1, 8)
    """
    return most.bit_length()
