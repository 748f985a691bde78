"""Bytes no client library would send: each is refused by name, and the server goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest

from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

PATH = ["dataset", "bad"]
NUMBERS = pa.record_batch({"k": [1, 2, 3]})

VICTIMS: dict[str, pa.Array] = {
    "string": pa.array(["ab", "cd", "ef"]),
    "large_string": pa.array(["ab", "cd", "ef"], pa.large_string()),
    "binary": pa.array([b"ab", b"cd", b"ef"]),
    "string_view": pa.array(["ab", "a string that is not inline", "ef"], pa.string_view()),
    "list": pa.array([[1], [2, 3], []]),
    "large_list": pa.array([[1], [2, 3], []], pa.large_list(pa.int64())),
    "map": pa.array([[("a", 1)], [], [("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["x"])],
    ),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), ["a", "b"]),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
}


def flips(body: bytes) -> Iterator[bytes]:
    """`body` with one byte after the other made as large as can be."""
    for n in range(len(body)):
        for value in (0xFF, 0x7F):
            if body[n] != value:
                yield body[:n] + bytes([value]) + body[n + 1 :]


@pytest.mark.parametrize("name", VICTIMS)
def test_no_flipped_byte_kills_the_server(
    rig: FlightRig, raw_put: Any, wire: Any, name: str
) -> None:
    """Either the bytes mean something and are taken, or a named error comes back (G1, G2, G3)."""
    flight_data, ipc = wire
    messages = ipc(pa.record_batch({"s": VICTIMS[name]}))
    refused = 0
    for n, body in enumerate(flips(messages[-1].body.to_pybytes())):
        sent = [flight_data(messages[0], ["dataset", f"d{n}"])]
        sent += [flight_data(message) for message in messages[1:-1]]
        error = raw_put([*sent, flight_data(messages[-1], body=body)])
        if error is not None:
            refused += 1
            assert_named(error)
    assert refused
    with rig.client() as client:
        assert client.action("healthcheck")["status"] == "ok"


def cases(flight_data: Callable[..., bytes], ipc: Any) -> dict[str, list[bytes]]:
    schema, rows = ipc(NUMBERS)
    # IPC batches do not name their types: only one that does not fit can be refused.
    other_schema, other_rows = ipc(pa.record_batch({"x": ["a", "b", "c"]}))
    begin = flight_data(schema, PATH)
    return {
        "nothing": [],
        "garbage protobuf": [b"\xff" * 100],
        "no descriptor": [flight_data(schema), flight_data(rows)],
        "garbage header": [flight_data(header=b"\x07" * 64, path=PATH)],
        "batch first": [flight_data(rows, PATH)],
        "schema twice": [begin, flight_data(schema)],
        "another batch": [begin, flight_data(other_rows)],
        "another schema": [begin, flight_data(other_schema), flight_data(other_rows)],
        "cut body": [begin, flight_data(rows, body=rows.body.to_pybytes()[:5])],
        "no body": [begin, flight_data(rows, body=b"")],
    }


@pytest.mark.parametrize(
    "name",
    ["nothing", "garbage protobuf", "no descriptor", "garbage header", "batch first",
     "schema twice", "another batch", "another schema", "cut body", "no body"],
)  # fmt: skip
def test_malformed_streams_are_refused(rig: FlightRig, raw_put: Any, wire: Any, name: str) -> None:
    error = raw_put(cases(*wire)[name])
    assert error is not None
    assert_named(error)
    wait_until(lambda: not rig.control.catalogue._transactions)
    assert rig.control.catalogue.all() == []
    with rig.client() as client:
        assert client.action("healthcheck")["status"] == "ok"


def test_big_metadata_is_ignored(rig: FlightRig, raw_put: Any, wire: Any) -> None:
    flight_data, ipc = wire
    schema, rows = ipc(NUMBERS)
    big = flight_data(rows, metadata=b"x" * (16 << 20))
    assert raw_put([flight_data(schema, ["dataset", "good"]), big]) is None
    assert rig.control.catalogue.get("good").rows == 3


def test_nulls_where_none_may_be_are_refused(rig: FlightRig, raw_put: Any, wire: Any) -> None:
    flight_data, ipc = wire
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    _, rows = ipc(pa.record_batch({"k": [1, None]}))
    schema, _ = ipc(pa.record_batch({"k": [1]}, strict))
    error = raw_put([flight_data(schema, PATH), flight_data(rows)])
    assert error is not None
    assert "not nullable" in error.details()


def test_a_pickle_in_an_extension_type_is_never_loaded(
    rig: FlightRig, raw_put: Any, wire: Any, tmp_path: Any
) -> None:
    """CVE-2023-47248: the canary file must not appear."""
    flight_data, ipc = wire
    canary = tmp_path / "canary"
    payload = f"cos\nsystem\n(S'touch {canary}'\ntR.".encode()
    field = pa.field(
        "k",
        pa.int64(),
        metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": payload,
        },
    )
    schema, rows = ipc(pa.record_batch([pa.array([1])], schema=pa.schema([field])))
    raw_put([flight_data(schema, PATH), flight_data(rows)])
    with rig.client() as client:
        assert client.action("healthcheck")["status"] == "ok"
    assert not canary.exists()


def assert_named(error: grpc.RpcError) -> None:
    """A named status with words, no traceback, no path."""
    text = error.details()
    assert text
    for word in ("Traceback", ".py", "/root", "/work", "/home"):
        assert word not in text, text
