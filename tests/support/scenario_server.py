"""A server of the agents' own class for one scenario of Arrow's Flight integration clients.

One job: `scenario_server`. Its handlers are those of `scenarios.py`; nothing else is in between.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric._cython.shuffle.flight.server import NativeServer
from fabric.config import Limits
from fabric.flight.handlers import adapt
from fabric.security.tokens import Signer
from tests.support.scenarios import AGENT, SCENARIOS


@contextmanager
def scenario_server(name: str) -> Iterator[int]:
    """The port of a server of the scenario `name`; `AssertionError` afterwards when it had a bug.

    >>> with scenario_server("ordered") as port:
    ...     port > 0
    True
    """
    signer = Signer(secrets.token_bytes(32))
    scenario = SCENARIOS[name](signer)
    handlers = HandlerSet()
    adapt(handlers, scenario)
    server = NativeServer(
        scenario,
        handlers,
        scenario.table.native,
        agent_id=AGENT,
        location="grpc+tcp://127.0.0.1:0",
        ticket_key=signer.key("ticket"),
        ticket_s=3600.0,
        limits=Limits(streams_max=64),
        own_options=True,
        locations=scenario.locations,
        own_actions=scenario.own_actions,
        echoed=scenario.echoed,
    )
    try:
        yield server.port
    finally:
        server.stop(5.0)
    assert scenario.broke == [], scenario.broke
