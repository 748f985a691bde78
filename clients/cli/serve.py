"""``fabric coordinator`` and ``fabric agent``: one process each, in the foreground.

One job: settings from the command line (and ``FABRIC_AGENT_…`` variables) into the process's
config. The processes themselves are `coordinator/main.py` and `fabric/agent/process/main.py`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fabric.clients.cli.options import Home, MetricsPort, RestPort, home_of
from fabric.config import AgentConfig
from fabric.errors import ConfigError
from fabric.settings import load
from fabric.values import Folders

_PR_SET_PDEATHSIG = 1
OWN_PROCESS = "the process is the command's own"
"""In the context of a command: it may turn the process into another one."""
Parent = Annotated[
    int, typer.Option("--parent", hidden=True, help="End when this process, the parent, ends.")
]
Host = Annotated[str | None, typer.Option("--host", help="Where to listen; default 127.0.0.1.")]


def coordinator(
    *,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Default 6123; 0 is a free one."),
    ] = None,
    host: Host = None,
    rest_port: RestPort = None,
    metrics_port: MetricsPort = None,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="ADDRESS",
            help="postgresql://user@host/database, for one of several; default: a folder.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Of the process, such as 2GB: with more it refuses plans. Default 4GiB.",
        ),
    ] = None,
    home: Home = None,
    parent: Parent = 0,
) -> None:
    """Run a coordinator in the foreground; SIGTERM or Ctrl-C stops it."""
    from fabric.clients.cli.processes import port_is_free
    from fabric.coordinator.config import CoordinatorConfig
    from fabric.coordinator.main import run_coordinator
    from fabric.telemetry.logs import configure_logs

    end_with_parent(parent)
    config = load(
        CoordinatorConfig,
        "coordinator",
        home=home_of(home).create().root,
        host=host,
        port=port,
        rest_port=rest_port,
        metrics_port=metrics_port,
        metadata=metadata,
        memory=memory,
    )
    config.check_bind()
    if config.port and not port_is_free(config.host, config.port):
        raise ConfigError(
            f"port {config.port} of {config.host} is taken, maybe by another coordinator; "
            "use --port"
        )
    configure_logs()
    run_coordinator(config, ready=lambda at: typer.echo(f"coordinator listening on {at}"))


def agent(
    context: typer.Context,
    *,
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator",
            metavar="HOST:PORT",
            help="Default 127.0.0.1:6123. Of several, all: a:6123,b:6123.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Its folder in the state folder; default 1.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Tasks at a time; default 4.")
    ] = None,
    host: Host = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Flight; default: a free one.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Of the process, such as 4GB or 512MiB."),
    ] = None,
    spill: Annotated[
        list[Path] | None,
        typer.Option(
            "--spill", metavar="FOLDER", help="For what memory has no room for; may be repeated."
        ),
    ] = None,
    metrics_port: MetricsPort = None,
    home: Home = None,
    parent: Parent = 0,
) -> None:
    """Run an agent in the foreground; SIGTERM or Ctrl-C stops it."""
    from fabric.agent.process.main import COMMAND, run_agent
    from fabric.telemetry.logs import configure_logs

    end_with_parent(parent)
    given: dict[str, Any] = {
        "home": str(home_of(home).root),
        "coordinator": coordinator,
        "name": name,
        "slots": slots,
        "host": host,
        "port": port,
        "memory": memory,
        "spill_folders": [str(folder) for folder in spill] if spill else None,
        "metrics_port": metrics_port,
    }
    folders = Folders(spill) if spill else None
    config = load(AgentConfig, "agent", **given | {"spill_folders": folders})
    if context.obj is not OWN_PROCESS:
        configure_logs()
        run_agent(config)
        return
    # The process that this one turns into reads the same settings again.
    debug = {"FABRIC_DEBUG": "1"} if "--debug" in sys.argv else {}
    words = ["fabric", *sys.argv[1:]]
    arguments = [str(2 + len(words)), *words, json.dumps(given), *sys.path]
    os.execve(sys.executable, [sys.executable, "-c", COMMAND, *arguments], os.environ | debug)


def end_with_parent(parent: int) -> None:
    """Be sent SIGTERM when process `parent` ends (Linux), so that nothing is left behind."""
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        raise typer.Exit(1)
