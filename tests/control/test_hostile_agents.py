"""What an agent's token lets one say, and what it does not do to the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import grpc
import pytest

from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.rpc import bearer
from tests.support.control_stub import control_stub

HELLO = pb.Hello(agent_id="a", address="grpc+tcp://127.0.0.1:1", slots=1, cpus=1)


@contextmanager
def attached(served: Any, *messages: pb.AgentMessage) -> Iterator[Any]:
    """A call of Attach that says these messages and then nothing more."""
    with grpc.insecure_channel(served.address) as channel:
        stub = control_stub(channel)
        yield stub.Attach(iter(messages), metadata=bearer(served.token("agent")), timeout=60)


def test_an_agents_epoch_ends_no_coordinator(served: Any) -> None:
    hello = pb.Hello(agent_id="liar", address="grpc+tcp://127.0.0.1:1", epoch=1 << 63)
    with attached(served, pb.AgentMessage(hello=hello)) as call:
        assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert "agent liar obeys one of epoch 9223372036854775808" in call.details()
    assert served.runtime.broken is None
    with closing(GrpcControl(served.address, served.token("read"))) as control:
        events = control.list_events(pb.EventsRequest()).events
    assert "agent obeys another coordinator" in [event.kind for event in events]


def test_a_link_that_breaks_as_it_begins_has_an_end(served: Any) -> None:
    """A write that is cancelled at the wrong moment once left the call open for ever."""
    for _ in range(100):
        with attached(served, pb.AgentMessage(hello=HELLO)) as call:
            list(call)
            assert call.code() is grpc.StatusCode.OK


@pytest.mark.parametrize("epoch", [0, 2, (1 << 64) - 1])
def test_nobody_is_deposed_by_what_a_token_says(served: Any, epoch: int) -> None:
    with grpc.insecure_channel(served.address) as channel:
        stub: Any = control_stub(channel)
        stub.Depose(pb.Leadership(epoch=epoch), metadata=bearer(served.token("agent")), timeout=60)
    assert served.runtime.broken is None
