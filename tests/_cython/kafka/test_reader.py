"""What the native reader alone does: decoding in the same call, and waking who waits."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fabric._cython.codecs.codec import Decoder
from fabric._cython.codecs.results import Decoded
from fabric._cython.codecs.text import JsonDecoder
from fabric._cython.kafka.results import Bad
from tests.services.kafka import SharedBroker, kafka_broker
from tests.support.kafka_clients import WAIT_S, client_of_kind, reads, settings, until

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
OFFSET = frozenset({"offset"})


@pytest.fixture(scope="module")
def broker() -> SharedBroker:
    return kafka_broker()


@pytest.fixture
def topic(broker: SharedBroker) -> str:
    return broker.new_topic()


@pytest.fixture(params=["native", "python"])
def reader(request: pytest.FixtureRequest, broker: SharedBroker) -> Iterator[Any]:
    with client_of_kind(request.param).Reader(settings(broker)) as made:
        yield made


@pytest.fixture
def native(broker: SharedBroker) -> Iterator[Any]:
    with client_of_kind("native").Reader(settings(broker)) as made:
        yield made


def test_values_are_decoded_and_bad_ones_told_apart(
    broker: SharedBroker, topic: str, reader: Any
) -> None:
    values = [f'{{"id": {i}, "name": "n{i}"}}'.encode() for i in range(3000)]
    values[7], values[2999], values[5] = b'{"id": ', b"", None  # type: ignore[call-overload]
    broker.produce(topic, [(None, value) for value in values])
    reader.assign({(topic, 0): 0})
    decoder, found = JsonDecoder(SCHEMA), list(reads(reader, topic, 0, 3000))
    assert sum(read.n_records for read in found) == 3000
    reader.unassign([(topic, 0)])
    reader.assign({(topic, 0): 0})
    found = list(reads(reader, topic, 0, 3000, wants=OFFSET, decoder=decoder))
    table = pa.Table.from_batches([read.batch for read in found])
    assert table.schema.names == ["offset", "id", "name"]
    good = [i for i in range(3000) if i not in (7, 2999)]
    assert table["offset"].to_pylist() == good
    assert table["id"].to_pylist() == [None if i == 5 else i for i in good]
    bad = [one for read in found for one in read.bad]
    assert [(one.offset, one.partition, one.value) for one in bad] == [
        (7, 0, b'{"id": '),
        (2999, 0, b""),
    ]
    assert all(isinstance(one, Bad) and one.reason for one in bad)


def test_records_of_bad_values_alone_are_an_empty_batch(
    broker: SharedBroker, topic: str, reader: Any
) -> None:
    broker.produce(topic, [(b"k", b"{")] * 3)
    reader.assign({(topic, 0): 0})
    found = list(reads(reader, topic, 0, 3, decoder=JsonDecoder(SCHEMA)))
    assert [read.batch.num_rows for read in found] == [0] * len(found)
    assert sum(len(read.bad) for read in found) == 3
    assert reader.position(topic, 0) == 3


class Away(Decoder):
    """A decoder of Python's that fails until it is told not to, then gives two rows a value."""

    is_native = False
    is_away = True

    def decode(self, values: Any) -> Decoded:
        if self.is_away:
            raise ConnectionError("the registry is away")
        origin = pa.array([i for i in range(len(values)) for _ in range(2)])
        rows = pa.record_batch({"n": pa.array(range(2 * len(values)))})
        return Decoded(rows, (), origin.to_numpy())


def test_a_decoder_that_fails_gets_the_same_records_again(
    broker: SharedBroker, topic: str, reader: Any
) -> None:
    broker.produce(topic, [(None, b"x"), (None, b"y")])
    reader.assign({(topic, 0): 0})
    until(lambda: reader.high_watermark(topic, 0) == 2 or reader.errors())
    decoder = Away()

    def fails() -> bool:
        try:
            reader.read(topic, 0, decoder=decoder)
        except ConnectionError:
            return True
        return False

    until(fails)
    assert reader.position(topic, 0) == 0
    decoder.is_away = False
    (read,) = reads(reader, topic, 0, 2, wants=OFFSET, decoder=decoder)
    assert read.batch.to_pydict() == {"offset": [0, 0, 1, 1], "n": [0, 1, 2, 3]}


def test_who_waits_is_woken_without_python_on_the_library_s_threads(
    broker: SharedBroker, topic: str, native: Any
) -> None:
    woken = threading.Event()
    names: list[str] = []

    def wake() -> None:
        names.append(threading.current_thread().name)
        woken.set()

    native.assign({(topic, 0): 0})
    until(lambda: native.read(topic, 0) or native.at_end(topic, 0))
    native.on_wake(wake)
    for _ in range(3):
        woken.clear()
        broker.produce(topic, [(None, b"x")])
        found = None
        while found is None:  # also a wake for nothing is one
            assert woken.wait(WAIT_S)
            woken.clear()
            found = native.read(topic, 0)
    assert set(names) == {"kafka-wake"}
    native.on_wake(None)
    count = len(names)
    broker.produce(topic, [(None, b"x")])
    list(reads(native, topic, 0, 1))
    assert len(names) == count


def test_the_file_descriptor_is_readable_when_something_came(
    broker: SharedBroker, topic: str, native: Any
) -> None:
    native.assign({(topic, 0): 0})
    until(lambda: native.read(topic, 0) or native.at_end(topic, 0))
    native.errors()
    broker.produce(topic, [(None, b"x")])
    until(lambda: native.read(topic, 0))
    assert os.eventfd_read(native.wake_fd) >= 1


def test_closing_while_it_wakes_ends(broker: SharedBroker, topic: str) -> None:
    """The last wakes come while the client ends: nothing of it may need what the closer holds."""
    broker.produce(topic, [(None, b"x")] * 1000)
    for closes_itself in (False, True):
        reader = client_of_kind("native").Reader(settings(broker))
        woken = threading.Event()

        def wake(reader: Any = reader, woken: Any = woken, inside: bool = closes_itself) -> None:
            if inside:
                reader.close()
            woken.set()

        reader.on_wake(wake)
        reader.assign({(topic, 0): 0})
        assert woken.wait(WAIT_S)
        reader.close()
        reader.close()


def test_batches_outlive_their_reader(broker: SharedBroker, topic: str) -> None:
    broker.produce(topic, [(b"key", b"value" * 100)] * 5000)
    with client_of_kind("native").Reader(settings(broker)) as reader:
        reader.assign({(topic, 0): 0})
        found = [read.batch for read in reads(reader, topic, 0, 5000)]
    del reader
    gc.collect()
    for batch in found:
        batch.validate(full=True)
        assert set(batch["value"].to_pylist()) == {b"value" * 100}


def test_statistics_and_logs_come_from_the_library(broker: SharedBroker) -> None:
    own = settings(broker, statistics_interval_ms="20", debug="conf")
    with client_of_kind("native").Reader(own) as reader:
        assert until(lambda: reader.errors() or reader.statistics())["type"] == "consumer"
        lines = reader.logs()
        assert 0 < len(lines) <= 257
        assert any("Client configuration" in text for _, text in lines)


def test_header_names_that_are_no_text_are_made_some(
    broker: SharedBroker, topic: str, native: Any
) -> None:
    names = pa.array([b"\xffa\xe9", "é€😀".encode(), b"\xf0\x9f"], pa.binary())
    pairs = pa.StructArray.from_arrays(
        [pa.Array.from_buffers(pa.string(), 3, names.buffers()), pa.array([b"v"] * 3)],
        ["key", "value"],
    )
    headers = pa.ListArray.from_arrays([0, 3], pairs)
    with client_of_kind("native").Writer(settings(broker)) as writer:
        writer.write(topic, None, pa.array([b"x"]), headers=headers)
        writer.flush()
    native.assign({(topic, 0): 0})
    (read,) = reads(native, topic, 0, 1)
    read.batch.validate(full=True)
    assert [h["key"] for h in read.batch["headers"][0].as_py()] == ["�a�", "é€😀", "��"]


def test_a_reader_that_is_dropped_ends_its_thread(broker: SharedBroker) -> None:
    reader = client_of_kind("native").Reader(settings(broker))
    reader.on_wake(lambda: None)
    (thread,) = [t for t in threading.enumerate() if t.name == "kafka-wake"]
    del reader
    gc.collect()
    thread.join(WAIT_S)
    assert not thread.is_alive()
