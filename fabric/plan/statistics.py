"""What is known of the sources of a plan before it runs.

One job: the facts that the optimizer may be given. It is pure, so whoever calls it has read them
from footers and tables. A fact that is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """One column: how many nulls, and its smallest and largest value (None: all are null).

    Values are what ``pa.scalar(value, dtype)`` takes. They are exact, not bounds.
    """

    n_nulls: int
    least: Any
    most: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """One source: how many rows, about or `exact`, and what is known of its columns."""

    n_rows: int
    exact: bool = False
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


Statistics = Mapping[str, SourceFacts]
"""Facts by the path of the scan."""

NOTHING_KNOWN: Statistics = {}
