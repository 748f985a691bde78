"""Joined batches: the same rows in the same order on each side of every barrier and end."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.stream_tasks.channels import (
    JOINED_ROWS,
    SMALL_ROWS,
    ChannelEvent,
    EdgeEnd,
    EdgeRows,
    EdgeWatermark,
    joined,
)
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot

EDGES = st.integers(0, 2)


def rows(edge: int, first: int, n_rows: int) -> EdgeRows:
    return EdgeRows(
        edge, pa.record_batch({"n": pa.array(range(first, first + n_rows), pa.int64())})
    )


EVENTS = st.one_of(
    st.builds(rows, EDGES, st.integers(0, 1000), st.sampled_from([0, 1, 3, SMALL_ROWS + 1])),
    st.builds(EdgeWatermark, EDGES, st.integers(-5, 5)),
    st.builds(TakeSnapshot, st.integers(1, 3)),
    st.builds(EdgeEnd, EDGES),
    st.builds(DeclineSnapshot, st.integers(1, 3), st.just("why")),
)


def shown(events: list[ChannelEvent]) -> list[object]:
    """By stretch between events that stay: rows of each edge, its last watermark, that event."""
    found: list[object] = []
    came: dict[int, list[int]] = defaultdict(list)
    times: dict[int, int] = {}
    for event in [*events, None]:
        if isinstance(event, EdgeRows):
            came[event.edge] += event.batch["n"].to_pylist()
        elif isinstance(event, EdgeWatermark):
            times[event.edge] = event.time_us
        else:
            found.append(({e: r for e, r in came.items() if r}, dict(times), event))
            came.clear()
            times.clear()
    return found


@given(st.lists(EVENTS, max_size=20))
def test_rows_and_times_stay_between_the_same_barriers_and_ends(events: list[ChannelEvent]) -> None:
    assert shown(list(joined(events))) == shown(events)


def test_a_barrier_comes_before_anything_behind_it_is_asked_for() -> None:
    """The state of what gives the events changes when it is asked for the next one."""
    asked: list[str] = []

    def giving():
        yield rows(0, 0, 1)
        asked.append("barrier")
        yield TakeSnapshot(1)
        asked.append("behind")
        yield rows(0, 1, 1)

    found = joined(giving())
    assert isinstance(next(found), EdgeRows)
    assert next(found) == TakeSnapshot(1)
    assert asked == ["barrier"]
    assert [type(one) for one in found] == [EdgeRows]


def test_large_batches_are_not_copied_and_few_rows_wait() -> None:
    large = [rows(0, n, JOINED_ROWS // 2) for n in range(3)]
    seen: list[int] = []

    def giving():
        for n, event in enumerate(large):
            seen.append(n)
            yield event

    found = joined(giving())
    assert [next(found).batch, next(found).batch] == [large[0].batch, large[1].batch]
    assert seen == [0, 1], "no third one is waited for"


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([["a"], [], None], pa.list_(pa.string_view())),
        pa.array([{"d": "x"}, None], pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))])),
        pa.array(["long enough to lie beside"] * 3, pa.string_view()),
    ],
    ids=["dictionary", "views in lists", "dictionary in a struct", "views"],
)
def test_any_values_stay_as_they_are(values: pa.Array) -> None:
    whole = pa.record_batch({"v": values})
    other = whole.slice(1)
    if pa.types.is_dictionary(values.type):  # another one
        other = pa.record_batch({"v": pa.array(["c", "a"]).dictionary_encode()})
    batches = [
        e.batch for e in joined([EdgeRows(0, whole), EdgeRows(0, other)]) if isinstance(e, EdgeRows)
    ]
    found = [value for batch in batches for value in batch["v"].to_pylist()]
    assert found == whole["v"].to_pylist() + other["v"].to_pylist()


def test_rows_without_columns_are_counted() -> None:
    empty = pa.record_batch({"n": [1, 2]}).select([])
    found = [e.batch.num_rows for e in joined([EdgeRows(0, empty)] * 2) if isinstance(e, EdgeRows)]
    assert found == [2, 2]
