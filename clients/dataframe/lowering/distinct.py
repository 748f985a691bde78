"""One row for each different key: a number in each group, and those numbered 1.

One job: ``distinct(on, keep=…)``.

    Select(all but __place)
      Filter(__place == 1)
        Window(row_number() over on, in order)      for "none": count() over on
          X
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fabric.plan import expr as plan
from fabric.plan import nodes
from fabric.plan.mend import free_name
from fabric.plan.schema import schema_of


def distinct_rows(
    source: nodes.Node, on: Sequence[str], keep: str, order: tuple[plan.SortKey, ...]
) -> nodes.Node:
    """The rows of `source` that `keep` says, one or none for each different `on`."""
    names = schema_of(source).names
    keys = tuple(plan.Column(name) for name in on)
    if keep == "none":
        over = plan.Over(plan.Agg("count", None), keys)
    else:
        chosen = tuple(map(_reversed, order)) if keep == "last" else order
        over = plan.Over(plan.Agg("row_number", None), keys, chosen or _any_order())
    place = free_name("__place", names)
    numbered = nodes.Window(source, (plan.Alias(over, place),), path="distinct_*/window")
    first = plan.Call("eq", (plan.Column(place), plan.Literal(1, pa.int32())))
    kept = nodes.Filter(numbered, first, path="distinct_*/filter")
    return nodes.Select(kept, tuple(plan.Column(name) for name in names), path="distinct_*")


def _reversed(key: plan.SortKey) -> plan.SortKey:
    return replace(key, descending=not key.descending, nulls_last=not key.nulls_last)


def _any_order() -> tuple[plan.SortKey, ...]:
    """An order in which all rows are equal."""
    return (plan.SortKey(plan.Literal(0, pa.int32())),)
