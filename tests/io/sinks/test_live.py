"""What lies between a stream and a reader in its process."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from fabric.errors import ExternalError, NotFoundError
from fabric.ids import TaskId
from fabric.io.sinks import open_stream_sink
from fabric.io.sinks.live import BATCHES, Feed, feed_of, opened
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.targets import LiveTarget

ROW = pa.record_batch({"v": pa.array([1], pa.int64())})


def test_a_reader_that_takes_nothing_is_cut() -> None:
    feed = Feed(0.01)
    for _ in range(BATCHES):
        feed.put(ROW)
    with pytest.raises(ExternalError, match="took nothing for 0 s"):
        feed.put(ROW)
    rows = feed.take()
    assert next(rows) == ROW  # what lay there is read before
    with pytest.raises(ExternalError, match=r"took nothing for 0 s.*write_stream"):
        list(rows)
    with pytest.raises(ExternalError, match="took nothing for 0 s"):
        feed.put(ROW)


def test_a_task_that_waits_for_room_goes_on_when_its_reader_leaves() -> None:
    feed = Feed(60.0)
    for _ in range(BATCHES):
        feed.put(ROW)
    waiting = threading.Thread(target=feed.put, args=(ROW,))
    waiting.start()
    feed.end()
    waiting.join(60)
    assert not waiting.is_alive()
    assert list(feed.take()) == [ROW] * BATCHES


def test_a_task_that_is_cancelled_waits_for_no_room() -> None:
    with opened(Feed(60.0)) as target:
        sink = open_stream_sink(target, ROW.schema, TaskId("job-1", 0, 0), 1, SinkStart(1))
        for _ in range(BATCHES):
            sink.write(ROW)
        waiting = threading.Thread(target=sink.write, args=(ROW,))
        waiting.start()
        sink.interrupt()
        waiting.join(60)
        assert not waiting.is_alive()
        feed = feed_of(target)
    feed.end()
    assert list(feed.take()) == [ROW] * BATCHES


def test_rows_wait_for_whoever_takes_them() -> None:
    feed, n_rows = Feed(60.0), 10 * BATCHES

    def fill() -> None:
        for number in range(n_rows):
            feed.put(pa.record_batch({"v": [number]}))
        feed.end()

    filling = threading.Thread(target=fill)
    filling.start()
    assert [batch["v"][0].as_py() for batch in feed.take()] == list(range(n_rows))
    filling.join(60)


def test_the_sink_hands_rows_on_at_once_and_publishes_nothing() -> None:
    feed = Feed(1.0)
    with opened(feed) as target:
        sink = open_stream_sink(target, ROW.schema, TaskId("job-1", 0, 0), 1, SinkStart(1))
        sink.write(ROW)
        sink.write(ROW.slice(1))
        assert sink.prepare(1) == b'{"v": 1, "kind": "portions", "of": []}'
        sink.on_complete(1)
        sink.abandon()
    feed.end()
    assert list(feed.take()) == [ROW]


def test_a_reader_of_another_process_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="nobody reads live-elsewhere in this process"):
        feed_of(LiveTarget("live-elsewhere"))
