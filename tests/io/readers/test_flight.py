"""Rows that clients put into streams, by a plain Flight client over a real server."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import ConfigError, DataError
from fabric.ids import new_id
from fabric.io.dataset.access import use
from fabric.io.readers import enumerate_stream, open_reader
from fabric.io.readers.protocol import IDLE, Polled
from fabric.plan.sources import FlightStream
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

SCHEMA = pa.schema([("n", pa.int64())])
PLAIN = settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with FlightRig(tmp_path_factory.mktemp("rig"), 1) as rig, use(rig.access()):
        yield rig


class Putting:
    """A plain client's put, and what it was told."""

    def __init__(self, rig, *path, schema=SCHEMA):
        self.client = fl.connect(rig.control.addresses["a0"])
        token = rig.token("write")
        options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        descriptor = fl.FlightDescriptor.for_path("stream", *path)
        self.writer, self.answers = self.client.do_put(descriptor, schema, options)

    def told(self):
        if (answer := self.answers.read()) is None:
            self.writer.close()  # raises why
        return json.loads(answer.to_pybytes())

    def write(self, *values):
        self.writer.write_batch(pa.record_batch([list(values)], schema=SCHEMA))

    def end(self):
        """All that is still told until the server ends the put."""
        self.writer.done_writing()
        told = self.rest()
        self.writer.close()
        self.client.close()
        return told

    def fails(self, message):
        with pytest.raises(pa.ArrowException, match=message):
            self.closed()
        self.client.close()

    def closed(self):
        """All that is told, and then how it ended."""
        self.rest()
        self.writer.close()

    def is_over(self):
        """Nobody reads it any more: the client is told, and ends the put.

        It fails unless all was safe by then.
        """
        try:
            while not self.told().get("ended"):
                pass
            self.writer.done_writing()
            self.closed()
        except pa.ArrowException as error:
            if "not read here any more" not in str(error):
                raise
        self.client.close()

    def rest(self):
        told = []
        while (answer := self.answers.read()) is not None:
            told.append(json.loads(answer.to_pybytes()))
        return told


def opened(source, positions=None, splits=None):
    reader = open_reader(source, SCHEMA)
    reader.open(enumerate_stream(source)[slice(splits)])
    reader.seek(positions or {})
    assert reader.poll(1, 0.0) is IDLE  # from here on it takes puts
    return reader


def taken(reader, n_rows, rows_max=1_000):
    values = []
    while len(values) < n_rows:
        found = reader.poll(rows_max, 10.0)
        assert isinstance(found, Polled)
        values += found.batch["n"].to_pylist()
    return values


def stream(**options):
    return FlightStream(new_id("s"), **options)


def test_what_is_received_is_acknowledged_at_once(rig):
    source = stream(acknowledge="received")
    reader, put = opened(source), Putting(rig, source.name)
    assert put.told() == {"next": 0, "acknowledged": 0}
    put.write(1, 2)
    assert put.told() == {"acknowledged": 1}
    put.write(3)
    assert put.end()[-1] == {"acknowledged": 2}
    assert taken(reader, 3) == [1, 2, 3]
    reader.close()


def test_what_a_checkpoint_holds_is_acknowledged_when_it_is_complete(rig):
    source = stream()
    reader, put = opened(source), Putting(rig, source.name)
    assert put.told() == {"next": 0, "acknowledged": 0}
    for n in range(4):
        put.write(n)
    assert taken(reader, 2, rows_max=1) == [0, 1]
    reader.on_barrier(1)
    assert taken(reader, 2) == [2, 3]
    reader.on_complete(1)
    assert put.told() == {"acknowledged": 2}
    ended = []
    thread = threading.Thread(target=lambda: ended.extend(put.end()))
    thread.start()
    reader.on_barrier(2)
    reader.on_barrier(3)
    assert ended == []
    reader.on_complete(3)
    thread.join()
    assert ended[-1] == {"acknowledged": 4}
    reader.close()


def test_empty_batches_are_signs_of_life(rig):
    source = stream(acknowledge="received")
    reader, put = opened(source), Putting(rig, source.name)
    put.write()
    put.write(1)
    put.write()
    assert put.end()[-1] == {"acknowledged": 1}
    assert taken(reader, 1) == [1]
    reader.close()


@PLAIN
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    rows_max=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 6), max_size=3),
)
def test_a_writer_with_a_name_loses_and_doubles_nothing(rig, sizes, rows_max, cuts):
    """The reader is lost some times; the client puts again what it is asked for."""
    source, values = stream(), iter(range(1_000))
    messages = [[next(values) for _ in range(size)] for size in sizes]
    positions, seen = {}, []
    for n_polls in [*cuts, None]:
        reader = opened(source, positions)
        put = Putting(rig, source.name, "w-1")
        first = put.told()["next"]
        for message in messages[first:]:
            put.write(*message)
        left = [n for message in messages for n in message][len(seen) :]
        for _ in range(len(left) if n_polls is None else min(n_polls, len(left))):
            if len(seen) == sum(sizes):
                break
            found = reader.poll(rows_max, 10.0)
            seen += found.batch["n"].to_pylist()
        positions = reader.on_barrier(1)
        if n_polls is None:
            reader.on_complete(1)
            assert put.end()[-1]["acknowledged"] == len(messages)
        reader.close()
        if n_polls is not None:
            put.is_over()
    assert seen == [n for message in messages for n in message]


def test_a_full_buffer_holds_the_client_up(rig):
    source = stream(buffer_bytes=1, acknowledge="received")
    reader, put = opened(source), Putting(rig, source.name)
    for n in range(50):
        put.write(n)
    assert put.told()["next"] == 0
    assert put.told() == {"acknowledged": 1}  # the first one is in, the second waits for room
    assert taken(reader, 50) == list(range(50))
    assert put.end()[-1] == {"acknowledged": 50}
    reader.close()


def test_columns_are_chosen_and_checked(rig):
    source = stream(acknowledge="received")
    reader = opened(source)
    schema = pa.schema([("text", pa.string()), ("n", pa.int64())])
    put = Putting(rig, source.name, schema=schema)
    put.writer.write_batch(pa.record_batch([["x"], [7]], schema=schema))
    assert put.end()[-1] == {"acknowledged": 1}
    found = reader.poll(9, 10.0)
    assert found.batch.schema.equals(SCHEMA)
    assert found.batch["n"].to_pylist() == [7]
    Putting(rig, source.name, schema=pa.schema([("n", pa.int32())])).fails("n: int64")
    reader.close()


def test_puts_that_nobody_reads_or_that_are_no_paths_are_refused(rig):
    Putting(rig, "nowhere").fails("no job reads stream")
    Putting(rig, "a/b").fails("rows are put into streams by")
    Putting(rig, "a", "b", "c").fails("rows are put into streams by")
    source = stream()
    reader = opened(source)
    reader.close()
    Putting(rig, source.name).fails("no job reads stream")


def test_a_writer_puts_once_at_a_time(rig):
    source = stream(acknowledge="received")
    reader, put = opened(source), Putting(rig, source.name, "w")
    put.told()
    Putting(rig, source.name, "w").fails("puts into stream .* already")
    put.end()
    again = Putting(rig, source.name, "w")
    assert again.told()["next"] == 0
    again.end()
    reader.close()


def test_a_client_that_goes_away_leaves_its_name_to_the_next(rig):
    source = stream(acknowledge="received")
    reader, put = opened(source), Putting(rig, source.name, "w")
    put.told()
    put.write(1)
    assert put.told() == {"acknowledged": 1}
    put.writer = put.answers = put.client = None  # the call is cut off

    def attached():
        again = Putting(rig, source.name, "w")
        try:
            assert again.told()["next"] == 1
        except pa.ArrowException:
            again.client.close()
            return False
        again.end()
        return True

    wait_until(attached)
    assert taken(reader, 1) == [1]
    reader.close()


def test_a_name_belongs_to_one_split(rig):
    source = stream(acknowledge="received", n_splits=2)
    reader = opened(source, splits=1)  # the other one is another agent's
    refused = []
    for n in range(8):
        put = Putting(rig, source.name, f"w-{n}")
        try:
            put.told()
        except pa.ArrowException as error:
            refused.append(str(error))
            put.client.close()
        else:
            put.end()
    assert 0 < len(refused) < 8
    assert all("another agent reads" in text for text in refused)
    reader.close()


def test_a_message_that_comes_again_shorter_is_an_error(rig):
    source = stream()
    reader, put = opened(source), Putting(rig, source.name, "w")
    put.write(1, 2, 3)
    assert taken(reader, 2, rows_max=2) == [1, 2]
    positions = reader.positions()
    reader.close()
    again = opened(source, positions)
    put = Putting(rig, source.name, "w")
    put.write(1, 2)
    with pytest.raises(DataError, match="had more"):
        again.poll(9, 10.0)
    again.close()


@pytest.mark.parametrize(
    "change",
    [{"name": "a b"}, {"acknowledge": "never"}, {"n_splits": 0}, {"buffer_bytes": 0}],
)
def test_refusals(change):
    with pytest.raises(ConfigError):
        enumerate_stream(FlightStream(**{"name": "s", **change}))
