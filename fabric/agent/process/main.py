"""The agent process.

One job: `run_agent`, and `main`, the process of ``fabric agent``. Nothing here imports pyarrow
before the allocators are chosen. The process ends with SIGTERM or SIGINT: it says goodbye, lets
open replies end, stops its tasks and returns.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from fabric import failpoints
from fabric.agent.process.memory import prepare_process
from fabric.config import AgentConfig
from fabric.errors import FabricError
from fabric.process import allow_descriptors, forbid_cores, sets, settle_heap
from fabric.values import Folders

SWITCH_S = 0.0005
"""After so long a busy Python thread (a user's function) lets others run; Python's own 5 ms are
paid at every step of every task beside it."""

COMMAND = """
import sys
try:
    settings, *sys.path[:] = sys.argv[int(sys.argv[1]):]
    from fabric.agent.process.main import main
    main(settings)
except KeyboardInterrupt:
    sys.stderr.write("fabric: stopped\\n")
    sys.exit(130)
"""
"""What Python is given to run `main`: as arguments the place of the settings, the user's own words,
so that the process can be found by them, the settings as JSON, and `sys.path`."""


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
    forbid_cores()
    from fabric.agent.process.service import AgentProcess
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


def main(settings: str) -> None:
    """The process that ``fabric agent`` turns into; `settings` is JSON.

    It leaves out the parser of the command line, which costs 10 MB.
    """
    from fabric.settings import load
    from fabric.telemetry.logs import configure_logs

    configure_logs()
    given = json.loads(settings)
    if given["spill_folders"] is not None:
        given["spill_folders"] = Folders(map(Path, given["spill_folders"]))
    try:
        run_agent(load(AgentConfig, "agent", **given))
    except FabricError as error:
        if os.environ.get("FABRIC_DEBUG", "") not in ("", "0"):
            raise
        sys.exit(f"fabric: {type(error).__name__}: {' '.join(str(error).split())}")
