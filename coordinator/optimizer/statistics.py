"""What is known of the sources of a plan before it runs.

One job: the facts that rules may ask for. The optimizer is pure, so whoever calls it has read them
from footers and tables; a fact that is not known is left out, and one that is said is exact where
it says so.
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
    """One source: about how many rows it has, whether that is exact, and what columns are like."""

    n_rows: int
    exact: bool = False
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


Statistics = Mapping[str, SourceFacts]
"""Facts by the path of the scan."""

NOTHING_KNOWN: Statistics = {}
