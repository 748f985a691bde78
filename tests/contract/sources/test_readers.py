"""Every reader of a stream against one contract, with an oracle of each source's own."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, InternalError
from fabric.io.readers import enumerate_stream, open_reader, serving
from fabric.io.readers.protocol import END, IDLE, Ended, Polled
from fabric.plan.codec import decode, encode
from fabric.plan.nodes import Plan, StreamScan
from fabric.plan.sources import STREAM_SOURCES
from tests.support.streams.cases import CASES

PLAIN = settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=CASES, scope="module")
def case(request, tmp_path_factory):
    return CASES[request.param](tmp_path_factory.mktemp("source"))


def opened(case, positions=None, splits=None, schema=None):
    reader = open_reader(case.source, schema or case.schema)
    reader.open(enumerate_stream(case.source) if splits is None else splits)
    if positions is not None:
        reader.seek(positions)
    return reader


def take(reader, rows, sizes, n_polls=None):
    """Add what `reader` gives to `rows`; whether it ended."""
    n_done = 0
    while n_polls is None or n_done < n_polls:
        size = sizes[n_done % len(sizes)]
        found = reader.poll(size, 0.0)
        n_done += 1
        if found is END:
            return True
        assert found is not IDLE
        if isinstance(found, Polled):
            assert 1 <= found.batch.num_rows <= size
            rows.setdefault(found.split, []).extend(found.batch.to_pylist())
    return False


def whole(case):
    return {split: rows for split, rows in case.rows.items() if rows}


@pytest.mark.parametrize("kind", STREAM_SOURCES)
def test_every_source_has_a_module(kind):
    source = object.__new__(kind)
    for name in ("stream_schema", "enumerate_splits", "open_reader"):
        assert callable(getattr(serving(source), name))


def test_the_source_travels(case):
    scan = StreamScan(case.source, case.schema)
    assert decode(encode(Plan(scan))).root == scan


def test_reads_what_the_oracle_says_and_ends_each_split_once(case):
    rows, ended, reader = {}, [], opened(case)
    while (found := reader.poll(64, 0.0)) is not END:
        if isinstance(found, Ended):
            ended.append(found.split)
        else:
            assert found.split not in ended
            assert found.batch.schema.equals(case.schema)
            rows.setdefault(found.split, []).extend(found.batch.to_pylist())
    assert rows == whole(case)
    assert sorted(ended) == sorted(split.uri for split in enumerate_stream(case.source))
    assert reader.poll(64, 0.0) is END


def test_split_ids_are_the_same_every_time(case):
    first = enumerate_stream(case.source)
    assert first == enumerate_stream(case.source)
    assert len({split.uri for split in first}) == len(first)


@PLAIN
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    after=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_a_seek_gives_exactly_the_rest_whatever_the_batches(case, sizes, after, cuts):
    rows, positions = {}, None
    for n_polls in cuts:  # each time the reader is lost, as in a crash
        reader = opened(case, positions)
        take(reader, rows, sizes, n_polls)
        positions = reader.on_barrier(1)
        assert positions == reader.positions()
        take(reader, {}, after, 3)  # what came after the barrier comes again
    assert take(opened(case, positions), rows, after)
    assert rows == whole(case)


def test_a_position_of_the_end_ends_again(case):
    reader = opened(case)
    take(reader, {}, [100])
    again = opened(case, reader.positions())
    rows = {}
    assert take(again, rows, [100])
    assert rows == {}
    assert again.positions() == reader.positions()


def test_splits_move_between_any_number_of_tasks(case):
    splits, rows, positions = enumerate_stream(case.source), {}, {}
    for n_tasks in (1, 2, 3, 1):
        moved = {}
        for task in range(n_tasks):
            own = splits[task::n_tasks]
            known = {s.uri: positions[s.uri] for s in own if s.uri in positions}
            reader = opened(case, known, own)
            take(reader, rows, [17], 4)
            moved.update(reader.positions())
        positions = moved
    take(opened(case, positions), rows, [50])
    assert rows == whole(case)


def test_columns_alone(case):
    schema = case.schema.empty_table().select([case.key]).schema
    rows = {}
    take(opened(case, schema=schema), rows, [64])
    wanted = {k: [{case.key: row[case.key]} for row in v] for k, v in whole(case).items()}
    assert rows == wanted


def test_paused_splits_give_nothing_until_they_go_on(case):
    splits = enumerate_stream(case.source)
    reader, paused = opened(case), frozenset(split.uri for split in splits[:2])
    reader.pause(paused)
    rows = {}
    while isinstance(found := reader.poll(50, 0.0), Polled | Ended):
        assert found.split not in paused
        if isinstance(found, Polled):
            rows.setdefault(found.split, []).extend(found.batch.to_pylist())
    assert found is IDLE
    reader.pause(frozenset())
    assert take(reader, rows, [50])
    assert rows == whole(case)


def test_an_interrupt_ends_a_wait(case):
    reader = opened(case)
    reader.pause(frozenset(split.uri for split in enumerate_stream(case.source)))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(reader.poll(10, 60.0)))
    thread.start()
    reader.interrupt()
    thread.join(30)
    assert answers == [IDLE]


def test_no_splits_are_an_ended_stream(case):
    assert opened(case, splits=[]).poll(10, 0.0) is END


def test_positions_are_small_and_checked(case):
    reader = opened(case)
    take(reader, {}, [11], 9)
    positions = reader.positions()
    assert all(len(data) < 1_000 for data in positions.values())
    split = next(iter(positions))
    for damaged in (b"", b"[]", b"{}", b"\xff", positions[split][:-3]):
        with pytest.raises(DataError):
            opened(case, {split: damaged})
    with pytest.raises(DataError, match="other"):
        opened(case, {split: b'{"v":1,"kind":"other"}'})
    with pytest.raises(InternalError):
        opened(case, {"nowhere": positions[split]})


def test_nothing_after_close(case):
    reader = opened(case)
    take(reader, {}, [11], 2)
    reader.close()
    reader.close()
    reader.interrupt()
