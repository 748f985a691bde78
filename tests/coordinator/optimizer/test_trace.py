from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_pushdown import filter_below_sort
from fabric.coordinator.optimizer.trace import Fired, effects_text
from fabric.plan.expr import Column, SortKey
from fabric.plan.nodes import Filter, Join, Sort


def test_lines(p: SimpleNamespace) -> None:
    joined = Join(p.table("l"), p.file("r"), (Column("a"),), (Column("a"),), path="join")
    plan = Filter(
        Sort(joined, (SortKey(Column("a")),), path="sort"), p.call("gt", "a", 1), path="f"
    )
    fired = [Fired("filter_below_sort", plan, filter_below_sort(plan))] * 2
    before = '    - join.sort("a").filter(col("a") > lit(1, "int64"))'
    after = '    + join.filter(col("a") > lit(1, "int64")).sort("a")'
    change = ["  f", before, after]
    assert effects_text(fired).splitlines() == ["filter below sort", *change, *change]
    verbose = effects_text(fired[:1], verbose=True).splitlines()
    assert verbose[:4] == ["filter below sort", *change]
    assert verbose[4].startswith("      sort: ")
    assert len(verbose) == 4 + 5


def test_many_changes_are_counted(p: SimpleNamespace) -> None:
    fired = [Fired("some_rule", p.table(), p.table("u"))] * 25
    lines = effects_text(fired).splitlines()
    assert lines[0] == "some rule"
    assert lines[-1] == "  ... and 5 more"
    assert len(lines) == 1 + 3 * 20 + 1


def test_nothing() -> None:
    assert effects_text([]) == "no rule fired\n"
