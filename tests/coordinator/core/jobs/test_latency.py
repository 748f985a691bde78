"""A latency shared out: no way gathers for longer, and what has less is asked of all on its way."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.core.jobs.latency import EXCHANGE_MIN_S, Share, shares
from fabric.coordinator.planner.stages import RESULT, Edge, Stage, StageGraph
from fabric.plan.nodes import StageInput

ROWS = pa.schema([("a", pa.int64())])
JOB_US = 20_000


def graph(
    n: int, edges: list[tuple[int, int]], own: dict[int, int] | None = None, mode: str = "pipelined"
) -> StageGraph:
    """`n` stages, with `own` latencies, joined by `edges`."""
    return StageGraph(
        tuple(
            Stage(
                stage=number,
                path=f"n{number}",
                root=StageInput(0, ROWS, path=f"n{number}"),
                kind="chain",
                n_tasks=1,
                splits=(),
                region=0,
                latency_us=(own or {}).get(number),
            )
            for number in range(n)
        ),
        tuple(
            Edge(
                edge=number,
                path=f"e{number}",
                producer=producer,
                consumer=consumer,
                kind="forward",
                mode="materialised" if consumer == RESULT else mode,  # type: ignore[arg-type]
                n_partitions=1,
                schema=ROWS,
            )
            for number, (producer, consumer) in enumerate([*edges, (n - 1, RESULT)])
        ),
    )


def ways(found: StageGraph, stage: int) -> Iterator[list[int]]:
    """Every way from `stage` to where rows go."""
    ahead = [edge.consumer for edge in found.outputs[stage] if not edge.is_result]
    if not ahead:
        yield [stage]
    for consumer in ahead:
        for way in ways(found, consumer):
            yield [stage, *way]


@st.composite
def graphs(draw: st.DrawFn) -> StageGraph:
    n = draw(st.integers(1, 6))
    edges = [
        (producer, consumer)
        for consumer in range(1, n)
        for producer in sorted(draw(st.sets(st.integers(0, consumer - 1), max_size=3)))
    ]
    own = draw(st.dictionaries(st.integers(0, n - 1), st.integers(0, 10**6), max_size=2))
    return graph(n, edges, own)


def test_an_exchange_has_an_eighth_and_the_source_what_is_left() -> None:
    assert shares(graph(1, []), JOB_US) == (Share(0.02, 0.0025),)
    two = (Share(0.0175, 0.0025), Share(0.0175, 0.0025, 0.0025))
    assert shares(graph(2, [(0, 1)]), JOB_US) == two
    three = [Share(0.015, 0.0025, n * 0.0025) for n in range(3)]
    assert list(shares(graph(3, [(0, 1), (1, 2)]), JOB_US)) == three


def test_many_exchanges_share_a_half() -> None:
    found = shares(graph(9, [(n, n + 1) for n in range(8)]), 80_000)
    assert [share.source_s for share in found] == [0.04] * 9
    assert [share.exchange_s for share in found] == [0.005] * 9


def test_a_short_way_beside_a_long_one_has_more_for_its_source() -> None:
    # 0 -> 1 -> 2 -> 4 and 3 -> 4: stage 4 is on both
    found = shares(graph(5, [(0, 1), (1, 2), (2, 4), (3, 4)]), 80_000)
    assert [round(share.source_s, 6) for share in found] == [0.05, 0.05, 0.05, 0.07, 0.05]


def test_an_exchange_gathers_nothing_where_its_share_is_worth_no_sleep() -> None:
    assert shares(graph(2, [(0, 1)]), 1_000) == (Share(0.0005, 0.0),) * 2
    assert shares(graph(1, []), 1_000) == (Share(0.0005, 0.0),)
    assert shares(graph(2, [(0, 1)]), 0)[1] == Share(0.0, 0.0)


def test_a_step_with_a_latency_of_its_own_has_it_on_its_whole_way() -> None:
    # 0 -> 1 -> 3 and 0 -> 2 -> 3
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    quick = shares(graph(4, edges, {1: 2_000}), JOB_US)
    assert [share.source_s for share in quick] == [0.001, 0.001, 0.015, 0.001]
    slow = shares(graph(4, edges, {1: 10**6}), JOB_US)  # the way by 2 is the job's
    assert [share.source_s for share in slow] == [0.015, 0.75, 0.015, 0.015]
    slow = shares(graph(2, [(0, 1)], {1: 10**6}), JOB_US)  # it wins over the job's
    assert [share.source_s for share in slow] == [0.875, 0.875]


def test_what_lies_whole_before_the_stream_has_no_part_in_it() -> None:
    assert shares(graph(2, [(0, 1)], {0: 0}, "materialised"), JOB_US)[1] == Share(0.02, 0.0025)


@given(found=graphs(), latency_us=st.integers(0, 10**7))
def test_no_way_gathers_for_longer_than_it_may(found: StageGraph, latency_us: int) -> None:
    each = shares(found, latency_us)
    for share in each:
        assert share.exchange_s == 0.0 or share.exchange_s >= EXCHANGE_MIN_S
    for first in (number for number, edges in found.inputs.items() if not edges):
        for way in ways(found, first):
            named = [
                stage.latency_us
                for stage in (found.stages[number] for number in way)
                if stage.latency_us is not None
            ]
            whole = each[first].source_s + sum(each[number].exchange_s for number in way[1:])
            assert whole <= min(named, default=latency_us) / 1e6 * (1 + 1e-9)
