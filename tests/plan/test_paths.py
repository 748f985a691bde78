"""Paths: patterns become numbered addresses; the rest is covered through the check."""

from __future__ import annotations

import pyarrow as pa

from fabric.plan import nodes as n
from fabric.plan.paths import assign_paths


def test_a_star_becomes_the_first_free_number() -> None:
    scan = n.StageInput(0, pa.schema([("a", pa.int64())]))
    first = n.Limit(scan, 3, path="top_*/limit")
    given = n.Limit(first, 2, path="top_1/limit")
    last = n.Limit(given, 1, path="top_*/limit")
    assert list(assign_paths(last).values()) == [
        "stage_input_1", "top_2/limit", "top_1/limit", "top_3/limit",
    ]  # fmt: skip
