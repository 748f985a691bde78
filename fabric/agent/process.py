"""The agent process.

One job: `run_agent` and the command line. Nothing here imports pyarrow before the allocators are
chosen. The process ends with SIGTERM or SIGINT: it says goodbye, lets open replies end, stops its
tasks and returns.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from fabric import failpoints
from fabric.agent.memory import prepare_process
from fabric.config import AgentConfig
from fabric.errors import FabricError
from fabric.heap import settle_heap
from fabric.signals import sets

SWITCH_S = 0.0005
"""After so long a busy Python thread (a user's function) lets others run; Python's own 5 ms are
paid at every step of every task beside it."""


def run_agent(
    config: AgentConfig,
    ready: Callable[[str, str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run an agent until SIGTERM, SIGINT or `stop`; `ready` is told its id and address once.

    Raises
    ------
    AuthError
        The coordinator does not take this fabric's secret.
    StorageError
        The folder can't be used, or another agent is in it.
    ConfigError
        A failpoint is set that is none, or outside of tests.
    """
    failpoints.arm()
    prepare_process(config.memory, config.give_back_s)
    allow_descriptors()
    from fabric.agent.service import AgentProcess
    from fabric.telemetry.logs import bind_process

    sys.setswitchinterval(SWITCH_S)
    halted = stop or threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, sets(halted))
    with ExitStack() as stack:
        process = AgentProcess(config, stack)
        bind_process(agent=process.agent_id)
        stack.callback(bind_process)
        settle_heap()
        if ready is not None:
            ready(process.agent_id, process.address)
        process.run(halted)


def allow_descriptors() -> None:
    """Let this process have all the descriptors it may: every client's connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """The command line of ``python -m fabric.agent.process``."""
    from fabric.telemetry.logs import configure_logs

    defaults = AgentConfig()
    parser = argparse.ArgumentParser(prog="fabric agent", description=__doc__)
    parser.add_argument("--coordinator", default=defaults.coordinator)
    parser.add_argument("--home", type=Path, default=defaults.home)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--host", default=defaults.host)
    parser.add_argument("--port", type=int, default=defaults.port)
    parser.add_argument("--slots", type=int, default=defaults.slots)
    configure_logs()
    try:
        run_agent(
            AgentConfig(**vars(parser.parse_args())),
            ready=lambda agent_id, address: print(f"{agent_id} listens on {address}", flush=True),
        )
    except FabricError as error:
        raise SystemExit(f"fabric agent: {error}") from None


if __name__ == "__main__":
    main()
