"""Where the frame of every row begins and ends, among sorted rows.

One job: `Layout`, the partitions and peers of sorted rows, and `frames` over it. All frames are
half-open ranges of row places, empty ones begin where they end. O(rows) for frames of rows,
O(rows log rows) for distances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.fragment.aggregates.segments import Bools, Floats, Ints
from fabric.plan.expr import Frame, SortKey

Frames = tuple[Ints, Ints]
Key = Ints | Floats
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """For each row: begin and end of its partition, and of its peers (rows that order alike)."""

    begin: Ints
    end: Ints
    peers_begin: Ints
    peers_end: Ints

    @classmethod
    def of(cls, row_number: Ints, rank: Ints) -> Layout:
        """From the row's number and rank in its partition, both from 1.

        >>> layout = Layout.of(np.array([1, 2, 3, 1]), np.array([1, 2, 2, 1]))
        >>> layout.end.tolist(), layout.peers_end.tolist()
        ([3, 3, 3, 4], [1, 3, 3, 4])
        """
        here = np.arange(len(row_number))
        begin, peers_begin = here - row_number + 1, here - row_number + rank
        return cls(begin, _ends(begin), peers_begin, _ends(peers_begin))


def _ends(begins: Ints) -> Ints:
    """The next different begin."""
    if not len(begins):
        return begins
    first = np.flatnonzero(np.diff(begins, prepend=-1))
    ends = np.append(first[1:], len(begins))
    return np.repeat(ends, np.diff(np.append(first, len(begins))))


def frames(layout: Layout, frame: Frame | None, ordered: bool) -> Frames:
    """The frames of rows, or of peers; a distance other than 0 needs `distances`."""
    if frame is None:
        return layout.begin, layout.peers_end if ordered else layout.end
    if frame.unit == "range":
        return (
            layout.begin if frame.start is None else layout.peers_begin,
            layout.end if frame.end is None else layout.peers_end,
        )
    n_rows = len(layout.begin)
    here = np.arange(n_rows)
    begin, end = layout.begin, layout.end
    if frame.start is not None:
        begin = np.clip(here + _clipped(frame.start, n_rows), layout.begin, layout.end)
    if frame.end is not None:
        end = np.clip(here + _clipped(frame.end, n_rows) + 1, layout.begin, layout.end)
    return begin, np.maximum(begin, end)


def _clipped(rows: int, n_rows: int) -> int:
    return max(-n_rows - 1, min(rows, n_rows + 1))


def distances(layout: Layout, frame: Frame, key: pa.Array, order: SortKey) -> Frames:
    """The frames of a range with distances; nulls and NaNs see their peers only.

    `key` is int64 or float64.
    """
    values, usual = _ascending(key, order.descending)
    among = _usual_rows(layout, usual)
    begin, end = layout.begin, layout.end
    if frame.start is not None:
        found = _first_at(values, among, frame.start, after_equal=False)
        begin = np.where(usual, found, layout.peers_begin)
    if frame.end is not None:
        found = _first_at(values, among, frame.end, after_equal=True)
        end = np.where(usual, found, layout.peers_end)
    return begin, np.maximum(begin, end)


def _ascending(key: pa.Array, descending: bool) -> tuple[Key, Bools]:
    """Values that go up where the order does, and which of them are numbers."""
    usual = key.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(key, 0).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        usual = usual & ~np.isnan(values)
        return (-values if descending else values), usual
    return (~values if descending else values), usual


def _usual_rows(layout: Layout, usual: Bools) -> Frames:
    """For each row: where the numbers of its partition lie; they follow each other."""
    before = np.append(0, np.cumsum(usual))
    n_usual = before[layout.end] - before[layout.begin]
    places = np.append(np.flatnonzero(usual), len(usual))
    first = np.where(n_usual > 0, places[before[layout.begin]], layout.begin)
    return first, first + n_usual


def _first_at(values: Key, among: Frames, distance: int, *, after_equal: bool) -> Ints:
    """For each row the first place in `among` that is `distance` (or just more) from its value."""
    first, last = among
    if values.dtype == np.float64:
        return _search(values, among, values + np.float64(distance), after_equal=after_equal)
    below, above = _INT64.min - min(distance, 0), _INT64.max - max(distance, 0)
    if below > _INT64.max or above < _INT64.min:
        return last if distance > 0 else first
    wrapped = np.int64((distance + (1 << 63)) % (1 << 64) - (1 << 63))  # the sum wraps back
    wanted = (np.clip(values, below, above) + wrapped).astype(np.int64)
    found = _search(values, among, wanted, after_equal=after_equal)
    return np.where(values > above, last, np.where(values < below, first, found))


def _search(values: Key, among: Frames, wanted: Key, *, after_equal: bool) -> Ints:
    """For each row the first place in `among` whose value is at least (above) `wanted`."""
    low, high = among[0].copy(), among[1].copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        found = values[np.minimum(middle, len(values) - 1)]
        goes_right = open_ & ((found <= wanted) if after_equal else (found < wanted))
        low = np.where(goes_right, middle + 1, low)
        high = np.where(open_ & ~goes_right, middle, high)
    return low
