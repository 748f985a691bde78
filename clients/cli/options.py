"""Options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.config import FabricHome

if TYPE_CHECKING:
    from fabric.clients.session.session import Session

LOCAL = "fabric://127.0.0.1:6123"

Connect = Annotated[
    str, typer.Option("--connect", "-c", metavar="ADDRESS", envvar="FABRIC_ADDRESS",
                      help="The fabric to use, such as fabric://host:6123.")
]  # fmt: skip
Token = Annotated[
    str, typer.Option("--token", metavar="TOKEN", envvar="FABRIC_TOKEN", show_default=False,
                      show_envvar=True, help="Default: the file 'token' in the state folder.")
]  # fmt: skip
Home = Annotated[
    Path | None, typer.Option("--home", metavar="FOLDER", envvar="FABRIC_HOME",
                              help="State folder; default ~/.fabric.")
]  # fmt: skip


def home_of(home: Path | None) -> FabricHome:
    """The state folder that was given, or the default."""
    return FabricHome(home.expanduser().absolute()) if home else FabricHome()


def open_session(address: str, token: str) -> Session:
    """A session on the fabric at `address`."""
    from fabric.clients.session.connect import connect

    return connect(address or LOCAL, token=token or None)
