"""Partitions of keys: Java's, which librdkafka's own partitioner agrees with."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kafka.writer import Writer, partition_of_key
from tests.services.kafka import kafka_broker
from tests.support.kafka_clients import client_of_kind, settings

MAX = 2**31 - 1
# Of Kafka's own tests (UtilsTest.testMurmur2), signed as Java has them.
JAVA = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA)
def test_hashes_are_java_s(key: str) -> None:
    assert partition_of_key(key.encode(), MAX) == (JAVA[key] & 0x7FFFFFFF) % MAX


def murmur2(key: bytes) -> int:
    """The same by Python's integers, written after the algorithm's description."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


@given(key=st.binary(max_size=70), n=st.integers(1, MAX))
def test_partitions_are_murmur2_s(key: bytes, n: int) -> None:
    assert partition_of_key(key, n) == murmur2(key) % n


@pytest.mark.parametrize("n", [0, -1])
def test_no_partitions_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"must be positive, got {n}"):
        partition_of_key(b"x", n)


def test_rows_go_where_the_library_s_own_partitioner_sends_them() -> None:
    client_of_kind("native")
    broker = kafka_broker()
    ours, theirs = (broker.new_topic(partitions=5) for _ in range(2))
    keys = [str(i * 7919).encode() for i in range(20_000)]
    broker.produce(theirs, [(key, b"") for key in keys], partitioner="murmur2_random")
    with Writer(settings(broker)) as writer:
        writer.write(ours, pa.array(keys), pa.array([b""] * len(keys)))
        writer.flush()
    placed = [[(r.partition, r.offset, r.key) for r in broker.records(t)] for t in (ours, theirs)]
    assert placed[0] == placed[1]


def test_rows_without_a_key_stay_together_within_a_call_and_move_between_calls() -> None:
    client_of_kind("native")
    broker = kafka_broker()
    topic = broker.new_topic(partitions=3)
    with Writer(settings(broker)) as writer:
        for call in range(3):
            writer.write(topic, None, pa.array([str(call).encode()] * 10))
        writer.flush()
    found = broker.records(topic)
    assert len({(r.partition, r.value) for r in found}) == 3
    assert {r.partition for r in found} == {0, 1, 2}


def test_columns_that_are_no_bytes_are_refused() -> None:
    client_of_kind("native")
    with Writer(settings(kafka_broker())) as writer:
        topic = kafka_broker().new_topic()
        with pytest.raises(TypeError, match="binary or string, got int64"):
            writer.write(topic, None, pa.array([1]))
        nameless = pa.array(
            [[(None, b"1")]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        )
        with pytest.raises(ValueError, match="the key of a header must not be null"):
            writer.write(topic, None, pa.array([b"x"]), headers=nameless)
