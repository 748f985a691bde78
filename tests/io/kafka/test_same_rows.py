"""The same rows from the native client and from Python's, whatever was written by either."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.kafka.results import COLUMNS, HEADERS
from tests.services.kafka import kafka_broker
from tests.support.kafka_clients import KINDS, client_of_kind, rows
from tests.support.kafka_clients import settings as settings_of

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
N_PARTITIONS = 3
PAST_MS = 1_750_000_000_000
"""Brokers take no time that is more than an hour ahead of theirs."""
PARTS = {"partition": pa.int32(), "timestamp": pa.timestamp("ms", "UTC"), "headers": HEADERS}
TYPES = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])
contents = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.text(max_size=12).map(str.encode),
    st.integers(0, 60_000).map(lambda n: b"\xff" * n),
)
records = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.one_of(st.none(), st.binary(max_size=40)),
            "value": contents,
            "partition": st.integers(0, N_PARTITIONS - 1),
            "timestamp": st.integers(1, PAST_MS),
            "headers": st.lists(
                st.fixed_dictionaries(
                    {"key": st.text(LETTERS, max_size=6),
                     "value": st.one_of(st.none(), st.binary(max_size=9))}
                ),
                max_size=3,
            ),
        }
    ),
    max_size=40,
)  # fmt: skip


class Rig:
    """One topic, which each example goes on with, and clients of both kinds."""

    def __init__(self) -> None:
        broker = kafka_broker()
        self.topic = broker.new_topic(partitions=N_PARTITIONS)
        own = settings_of(broker, linger_ms="0")
        read = settings_of(broker, fetch_wait_max_ms="10")
        self.writers = {kind: client_of_kind(kind).Writer(own) for kind in KINDS}
        self.readers = {kind: client_of_kind(kind).Reader(read) for kind in KINDS}
        for reader in self.readers.values():
            reader.assign({(self.topic, p): 0 for p in range(N_PARTITIONS)})
        self.writers["native"].partitions(self.topic)

    def close(self) -> None:
        for client in (*self.writers.values(), *self.readers.values()):
            client.close()

    def read(self, kind: str, counts: list[int]) -> pa.Table:
        """The next rows of each partition."""
        reader = self.readers[kind]
        found = [rows(reader, self.topic, p, n) for p, n in enumerate(counts) if n]
        return pa.concat_tables(found or [COLUMNS.empty_table()])


def column(given: list[dict[str, Any]], name: str, dtype: pa.DataType) -> pa.Array:
    return pa.array([one[name] for one in given], dtype)


def test_rows_are_the_same() -> None:
    rig = Rig()
    try:

        @settings(max_examples=40)
        @given(
            records=records,
            kind=st.sampled_from(KINDS),
            of_keys=TYPES,
            of_values=TYPES,
            is_rich=st.booleans(),
            skipped=st.integers(0, 3),
        )
        def hold(  # noqa: PLR0917
            records: list[Any], kind: str, of_keys: Any, of_values: Any, is_rich: bool, skipped: int
        ) -> None:
            columns = {
                name: column(records, name, dtype)[skipped:] for name, dtype in PARTS.items()
            }
            keys = column(records, "key", of_keys)[skipped:]  # slices: offsets are not 0
            values = column(records, "value", of_values)[skipped:]
            rich = {name + "s": columns[name] for name in PARTS if is_rich or name == "partition"}
            rich = {name.replace("headerss", "headers"): array for name, array in rich.items()}
            rig.writers[kind].write(rig.topic, keys, values, **rich)
            rig.writers[kind].flush()
            ours = columns["partition"].to_pylist()
            counts = [ours.count(p) for p in range(N_PARTITIONS)]
            native, other = (rig.read(k, counts) for k in KINDS)
            assert native.equals(other)
            wanted = ["key", "value", "partition", *(("timestamp", "headers") if is_rich else ())]
            mine = pa.table(
                {"key": keys.cast(pa.binary()), "value": values.cast(pa.binary()), **columns}
            )
            order = sorted(range(len(ours)), key=ours.__getitem__)  # stable, as partitions are
            assert (
                native.select(wanted).to_pylist()
                == mine.take(pa.array(order, pa.int64())).select(wanted).to_pylist()
            )

        hold()
    finally:
        rig.close()
