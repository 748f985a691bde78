from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.passes import unnoted
from fabric.coordinator.optimizer.smaller_side_right import smaller_side_right
from fabric.plan.expr import Column
from fabric.plan.nodes import Join, Select
from fabric.plan.schema import schema_of
from fabric.plan.statistics import SourceFacts

FACTS = {"few": SourceFacts(n_rows=10), "many": SourceFacts(n_rows=10_000)}
HUGE = {name: SourceFacts(n_rows=n << 30) for name, n in (("few", 1), ("many", 2))}
K = (Column("k"),)


def sides(p: SimpleNamespace) -> tuple[object, object]:
    columns = {"k": pa.int64(), "a": pa.int64()}
    return p.table("few", **columns), p.table("many", **columns)


def test_fires(p: SimpleNamespace) -> None:
    few, many = sides(p)
    plan = Join(few, many, K, K, path="j")
    found = smaller_side_right(FACTS, (), plan, unnoted)
    assert isinstance(found, Select)
    assert schema_of(found).equals(schema_of(plan))
    swapped = found.input
    assert swapped.left.input is many
    assert swapped.right is few
    assert swapped.path == "j"


@pytest.mark.parametrize("change", ["right", "left", "asked", "unknown", "huge", "pinned"])
def test_leaves_others(p: SimpleNamespace, change: str) -> None:
    few, many = sides(p)
    how = "left" if change == "left" else "inner"
    strategy = "hash" if change == "asked" else "auto"
    left, right = (many, few) if change == "right" else (few, many)
    plan = Join(left, right, K, K, how, strategy=strategy, path="j")
    facts = {"unknown": {}, "huge": HUGE}.get(change, FACTS)
    pinned = ("j",) if change == "pinned" else ()
    assert smaller_side_right(facts, pinned, plan, unnoted) is plan
    assert smaller_side_right(facts, pinned, few, unnoted) is few
