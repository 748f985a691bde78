"""Asking a Flight server that somebody else named, without telling them what is there.

One job: `asked`. Whoever may submit a plan may name any host and port in it. What they hear of one
that can't be used is the same sentence after the same time, whether nothing listens there, nothing
comes back, or what listens is no Flight server; the log of this process says which it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from fabric.cancellation import check_wanted
from fabric.errors import ConfigError, FabricError, PeerLostError, PlanError
from fabric.flight.errors import is_told
from fabric.telemetry.logs import logger

T = TypeVar("T")

IDLE_S: ContextVar[float] = ContextVar("idle_s", default=30.0)
"""How long a call of `source.py` may take in this thread."""
AGAIN_S = 0.5
_log = logger("fabric.flight")


def asked(uri: str, call: Callable[[], T], within_s: float, asker: str = "coordinator") -> T:
    """What `call` answers, which asks the server at `uri` and is tried again until `within_s`.

    `asker` is what this process is.

    Raises
    ------
    PeerLostError
        Nothing that can be used answered; always after `within_s`.
    """
    end_s = time.monotonic() + within_s
    while True:
        check_wanted()
        token = IDLE_S.set(max(0.1, end_s - time.monotonic()))
        try:
            return call()
        except (ConfigError, PlanError):
            raise  # the address is none, or not for plans: nobody was asked
        except FabricError as error:
            if is_told(error) or _is_ours(error):
                raise
            failure = error
        finally:
            IDLE_S.reset(token)
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            break
        time.sleep(min(AGAIN_S, left_s))
    _log.warning("a plan's Flight server can't be used", uri=uri[:200], error=str(failure))
    raise PeerLostError(
        f"no Flight server at {uri[:200]} answered within {within_s:g} s; check the address, and "
        f"that the {asker}'s machine may reach it (the {asker}'s log says what happened)"
    )


def _is_ours(error: FabricError) -> bool:
    """Whether nobody was asked, or what answered is a Flight server that said too much."""
    return error.__cause__ is None and not isinstance(error, PeerLostError)
