"""The check completes a plan, twice is as once, and names the node that is wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.codec import encode
from fabric.plan.expr import Alias, Call, Cast, Column, Literal
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    NodeConfig,
    Plan,
    Scan,
    Select,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.walk import walk
from tests.support.plans import random_plan, random_tables

TABLES = random_tables(Random(11))
seeds = st.integers(0, 1 << 32)


def late(scan: Scan) -> Filter:
    return Filter(scan, Call("gt", (Column("delay"), Literal(15, pa.int32()))))


@given(seed=seeds)
def test_every_node_gets_a_path_of_its_own_and_types_stay(seed: int) -> None:
    root = random_plan(Random(seed), TABLES)
    done = check(Plan(root)).root
    paths = [node.path for node in walk(done)]
    assert all(paths)
    assert len(set(paths)) == len(paths)
    assert schema_of(done) == schema_of(root)


@given(seed=seeds)
def test_checking_twice_is_checking_once(seed: int) -> None:
    once = check(Plan(random_plan(Random(seed), TABLES)))
    twice = check(once)
    assert twice.root is once.root
    assert twice == once


@given(seed=seeds)
def test_equal_plans_get_equal_paths(seed: int) -> None:
    first = check(Plan(random_plan(Random(seed), TABLES)))
    again = check(Plan(random_plan(Random(seed), TABLES)))
    assert encode(first) == encode(again)


def test_paths_count_by_kind_and_go_round_given_ones(flights: Scan) -> None:
    named = replace(late(flights), path="filter_1")
    root = WithColumns(late(named), (Alias(Column("delay"), "x"),))
    assert [node.path for node in walk(check(Plan(root)).root)] == [
        "scan_1", "filter_1", "filter_2", "with_columns_1"]  # fmt: skip


def test_a_shared_node_stays_shared(flights: Scan) -> None:
    shared = late(flights)
    root = check(Plan(Union((Limit(shared, 1), Limit(shared, 2))))).root
    first, second = root.children
    assert first.children[0] is second.children[0]


def test_union_inputs_are_cast_to_one_type(flights: Scan) -> None:
    narrow = Select(flights, (Column("delay"),))
    wide = Select(flights, (Alias(Cast(Column("delay"), pa.int64()), "d"),))
    root = check(Plan(Union((narrow, wide), path="both"))).root
    first, second = root.children
    assert first == Select(
        first.children[0],
        (Alias(Cast(Column("delay"), pa.int64()), "delay"),),
        path="both/input_1",
    )
    assert second.path == "select_2"
    assert [child.path for child in (*first.children, second)] == ["select_1", "select_2"]


def test_two_steps_of_one_path_are_refused(flights: Scan) -> None:
    one, two = replace(late(flights), path="late"), Limit(flights, 3, path="late")
    with pytest.raises(PlanError, match=r'two steps are called "late".*\.named\("late_2"\)') as e:
        check(Plan(Union((one, two))))
    assert e.value.where.node == "late"


@pytest.mark.parametrize("path", ["a//b", "/a", "a/", " a", "a\nb", "x" * 201, "a/ b"])
def test_a_path_that_is_none_is_refused(flights: Scan, path: str) -> None:
    with pytest.raises(PlanError, match=r"the path .* is not allowed; use up to 200 printable"):
        check(Plan(Limit(flights, 1, path=path)))


def test_a_path_may_have_any_letters(flights: Scan) -> None:
    root = check(Plan(Limit(flights, 1, path="säubern/größer als 3"))).root
    assert root.path == "säubern/größer als 3"


def test_the_error_names_the_node_even_when_it_has_no_name(flights: Scan) -> None:
    wrong = Select(late(flights), (Column("nope"),))
    with pytest.raises(PlanError) as caught:
        check(Plan(Limit(wrong, 1)))
    assert caught.value.where.node == "select_1"
    assert str(caught.value).endswith("(node select_1)")


def test_a_stage_input_and_a_phase_are_the_planners(flights: Scan) -> None:
    with pytest.raises(PlanError, match="a stage input has no place in a user's plan"):
        check(Plan(StageInput(0, flights.schema)))
    with pytest.raises(PlanError, match="phase='partial' is not one of \"single\""):
        check(Plan(Aggregate(flights, (Column("carrier"),), (), "partial")))


def test_settings_that_are_none_are_refused(flights: Scan) -> None:
    key = (Column("carrier"),)
    with pytest.raises(PlanError, match='how=\'outer\' is not one of "inner", "left"'):
        check(Plan(Join(flights, flights, key, key, "outer")))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="kind='range' is not one of \"hash\""):
        check(Plan(Exchange(flights, "range")))  # type: ignore[arg-type]


def test_config_is_sorted_by_path(flights: Scan) -> None:
    root = Limit(replace(late(flights), path="z"), 1, path="a")
    config = (("z", NodeConfig(parallelism=4)), ("a", NodeConfig(exchange="pipelined")))
    assert [path for path, _ in check(Plan(root, config)).config] == ["a", "z"]


def test_config_may_name_a_path_that_the_check_gave(flights: Scan) -> None:
    config = (("filter_1", NodeConfig(buffer_batches=2)),)
    assert check(Plan(late(flights), config)).config == config


def test_config_of_an_unknown_path_is_refused_with_the_nearest(flights: Scan) -> None:
    root = replace(late(flights), path="clean/late")
    settings = NodeConfig(parallelism=4, exchange="pipelined")
    message = (
        r'there is no step "clean/lat" to configure; the steps are "clean/late", "scan_1"; '
        r'write: \.configure\("clean/late", parallelism=4, exchange="pipelined"\)$'
    )
    with pytest.raises(PlanError, match=message):
        check(Plan(root, (("clean/lat", settings),)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (NodeConfig(parallelism=0), "parallelism must be 1 to 32768, got 0"),
        (NodeConfig(parallelism=True), "parallelism must be 1 to 32768, got True"),
        (NodeConfig(buffer_batches=-1), "buffer_batches must be 1 to 1048576, got -1"),
        (NodeConfig(exchange="fast"), "exchange='fast' is not one of"),  # type: ignore[arg-type]
        (
            NodeConfig(compression="lzo"),  # type: ignore[arg-type]
            "compression='lzo' is not one of .*; did you mean compression=\"lz4\"",
        ),
        (
            NodeConfig(compression="lz4"),
            'filter "filter_1" sends no rows to other agents, so there is nothing to compress',
        ),
    ],
)
def test_config_values_are_checked(flights: Scan, settings: NodeConfig, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        check(Plan(late(flights), (("filter_1", settings),)))
    assert caught.value.where.node == "filter_1"


def test_compression_of_what_sends_rows(flights: Scan) -> None:
    spread = NodeConfig(compression="zstd", parallelism=2)
    plan = Plan(late(flights), (("filter_1", spread), ("scan_1", NodeConfig(compression="none"))))
    assert len(check(plan).config) == 2
    with pytest.raises(PlanError, match='scan "scan_1" sends no rows'):
        check(Plan(late(flights), (("scan_1", spread),)))
    wrong = Exchange(flights, "gather", compression="lzo", path="e")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="compression='lzo' is not one of") as caught:
        check(Plan(wrong))
    assert caught.value.where.node == "e"


def test_config_twice_for_a_path_is_refused(flights: Scan) -> None:
    config = (("filter_1", NodeConfig(parallelism=1)), ("filter_1", NodeConfig(parallelism=2)))
    with pytest.raises(PlanError, match="a path is configured twice"):
        check(Plan(late(flights), config))


def test_a_thousand_steps_one_by_one_stay_quick() -> None:
    """The client checks after each step: known schemas are not inferred again."""
    node = Scan(MemorySource("t", 1), pa.schema([("delay", pa.int32())]))
    for _ in range(300):
        node = late(node)  # type: ignore[assignment,arg-type]
        assert check(Plan(node)).root.path
