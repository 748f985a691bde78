"""``fabric coordinator`` and ``fabric agent``: one process each, in the foreground.

One job: settings from the command line (and ``FABRIC_AGENT_…`` variables) into the process's
config. The processes themselves are `coordinator/main.py` and `fabric/agent/process.py`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from fabric.clients.cli.options import Home, home_of
from fabric.config import AgentConfig, ByteSize, Folders, load
from fabric.errors import ConfigError

_PR_SET_PDEATHSIG = 1
Parent = Annotated[
    int, typer.Option("--parent", hidden=True, help="End when this process, the parent, ends.")
]
Host = Annotated[str | None, typer.Option("--host", help="Where to listen; default 127.0.0.1.")]


def coordinator(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is a free one.")] = 6123,
    host: Host = None,
    home: Home = None,
    parent: Parent = 0,
) -> None:
    """Run a coordinator in the foreground; SIGTERM or Ctrl-C stops it."""
    from fabric.clients.cli.ports import port_is_free
    from fabric.coordinator.config import CoordinatorConfig
    from fabric.coordinator.main import run_coordinator
    from fabric.telemetry.logs import configure_logs

    end_with_parent(parent)
    folder, address = home_of(home).create(), host or "127.0.0.1"
    config = CoordinatorConfig(home=folder.root, host=address, port=port)
    config.check_bind()
    if port and not port_is_free(address, port):
        raise ConfigError(
            f"port {port} of {address} is taken, maybe by another coordinator; use --port"
        )
    configure_logs()
    run_coordinator(config, ready=lambda at: typer.echo(f"coordinator listening on {at}"))


def agent(
    *,
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", metavar="HOST:PORT", help="Default 127.0.0.1:6123."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Its folder in the state folder; default 1.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Tasks at a time; default: the CPUs.")
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
    home: Home = None,
    parent: Parent = 0,
) -> None:
    """Run an agent in the foreground; SIGTERM or Ctrl-C stops it."""
    from fabric.agent.process import run_agent
    from fabric.telemetry.logs import configure_logs

    end_with_parent(parent)
    config = load(
        AgentConfig,
        "AGENT",
        home=home_of(home).root,
        coordinator=coordinator,
        name=name,
        slots=slots,
        host=host,
        port=port,
        memory=ByteSize(memory) if memory else None,
        spill_folders=Folders(spill) if spill else None,
    )
    configure_logs()
    run_agent(config)


def end_with_parent(parent: int) -> None:
    """Be sent SIGTERM when process `parent` ends (Linux), so that nothing is left behind."""
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        raise typer.Exit(1)
