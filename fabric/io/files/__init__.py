"""Files as sources: one module a format, each with `file_schema`, `units` and `read_units`.

Here is what they share: the `Unit` (a row group or record batch), the smallest part of a file that
a task reads alone, how units become splits, and options with which a store is opened. No file is
touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.plan.places import FilePlace, Options, OptionValue, Settings
from fabric.plan.sources import Split

Given = Mapping[str, OptionValue | Settings]
"""Options of a reader, by name, and those of its store."""
_STORE = "storage_options"


def with_store(options: Options, place: FilePlace) -> dict[str, OptionValue | Settings]:
    """Options of a reader, and with them those of the store that `place` lies in."""
    return {**dict(options), **({_STORE: place.store} if place.store else {})}


def store_of(options: Given) -> Settings:
    """With which options the store is opened; none: as the environment says.

    >>> from fabric.plan.sources import FileSource
    >>> source = FileSource("csv", ("s3://b/x",), settings=(("aws_region", "eu-west-1"),))
    >>> store_of(with_store(source.options, source)), store_of({"delimiter": ";"})
    ((('aws_region', 'eu-west-1'),), ())
    """
    return options.get(_STORE, ())  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest part of a file that can be read alone; sizes are 0 when unknown."""

    n_rows: int = 0
    n_bytes: int = 0


def file_splits(path: str, units: Sequence[Unit], n_pieces: int) -> list[Split]:
    """`units` in at most `n_pieces` runs of about equal rows; one piece is the whole file (0:0).

    >>> [(s.begin, s.end, s.n_rows) for s in file_splits("x", [Unit(4), Unit(4), Unit(8)], 2)]
    [(0, 2, 8), (2, 3, 8)]
    """
    total_rows = sum(unit.n_rows for unit in units)
    total_bytes = sum(unit.n_bytes for unit in units)
    n_pieces = max(1, min(n_pieces, len(units)))
    if n_pieces == 1:
        return [Split(path, n_rows=total_rows, n_bytes=total_bytes)]
    splits: list[Split] = []
    begin, rows, n_bytes, done_rows = 0, 0, 0, 0
    for index, unit in enumerate(units):
        rows, n_bytes, done_rows = (
            rows + unit.n_rows,
            n_bytes + unit.n_bytes,
            done_rows + unit.n_rows,
        )
        is_last = index + 1 == len(units)
        reached = done_rows * n_pieces >= total_rows * (len(splits) + 1)
        if is_last or (reached and len(splits) + 1 < n_pieces):
            splits.append(Split(path, begin, index + 1, n_rows=rows, n_bytes=n_bytes))
            begin, rows, n_bytes = index + 1, 0, 0
    return splits
