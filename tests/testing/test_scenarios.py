"""The scenarios of Arrow's clients by pyarrow: what they see, and what they do not try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.flight.connections import connect
from tests.support.scenario_server import scenario_server


@contextmanager
def client_of(scenario: str) -> Iterator[fl.FlightClient]:
    with scenario_server(scenario) as port, connect(f"grpc+tcp://127.0.0.1:{port}") as client:
        yield client


def numbers(client: fl.FlightClient, info: fl.FlightInfo) -> list[list[int]]:
    tables = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    return [table["number"].to_pylist() for table in tables]


def test_one_command_for_two_exchanges() -> None:
    with client_of("expiration_time:do_get") as client:
        command = fl.FlightDescriptor.for_command(b"any")
        info = client.get_flight_info(command)
        assert info.descriptor == command
        assert [endpoint.expiration_time is None for endpoint in info.endpoints] == [
            True, False, False,
        ]  # fmt: skip
        assert numbers(client, info) == [[0], [1], [2]]
        assert client.get_schema(command).schema == info.schema
        assert not info.ordered


def test_order_is_told_when_asked_for() -> None:
    with client_of("ordered") as client:
        for command in (b"ordered", b"other"):
            info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
            assert info.ordered == (command == b"ordered")
            assert numbers(client, info) == [[1, 2, 3], [10, 20, 30], [100, 200, 300]]


def test_tickets_of_another_server_are_refused() -> None:
    with client_of("ordered") as one, client_of("ordered") as other:
        info = one.get_flight_info(fl.FlightDescriptor.for_command(b"ordered"))
        other.get_flight_info(fl.FlightDescriptor.for_command(b"ordered"))
        with pytest.raises(fl.FlightUnauthenticatedError, match="not signed by this fabric"):
            other.do_get(info.endpoints[0].ticket).read_all()


def test_nobody_is_somebody_before_logging_in() -> None:
    with client_of("auth:basic_proto") as client:
        for ask in (lambda: list(client.list_flights()), lambda: list(client.do_action("any"))):
            with pytest.raises(fl.FlightUnauthenticatedError, match="log in first"):
                ask()
        with pytest.raises((pa.ArrowException, OSError)):
            client.get_schema(fl.FlightDescriptor.for_command(b"any"))
