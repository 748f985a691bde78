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
                      help="The fabric to use, such as fabric://host:6123 or "
                      "fabric://a:6123,b:6123.")
]  # fmt: skip
Token = Annotated[
    str, typer.Option("--token", metavar="TOKEN", envvar="FABRIC_TOKEN", show_default=False,
                      show_envvar=True, help="Default: the file 'token' in the state folder.")
]  # fmt: skip
Engine = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", show_default=False,
                      help="fabric (default) or spark; --connect then is a Spark master such as "
                      "spark://host:7077 or local[2].")
]  # fmt: skip
Home = Annotated[
    Path | None, typer.Option("--home", metavar="FOLDER", envvar="FABRIC_HOME",
                              help="State folder; default ~/.fabric.")
]  # fmt: skip

RestPort = Annotated[
    str | None, typer.Option("--rest-port", metavar="PORT",
                             help="REST and pages; default 8081, 0 is a free one, off is none.")
]  # fmt: skip
MetricsPort = Annotated[
    str | None, typer.Option("--metrics-port", metavar="PORT",
                             help="For Prometheus; 0 is a free one, off is none.")
]  # fmt: skip


def home_of(home: Path | None) -> FabricHome:
    """The state folder that was given, or the default."""
    return FabricHome(home.expanduser().absolute()) if home else FabricHome()


def open_session(address: str, token: str, engine: str = "") -> Session:
    """A session on the fabric at `address`, or with `engine` "spark" on Spark.

    There `address` is a master, or a fabric: that of the datasets.
    """
    from fabric.clients.session.connect import connect, is_spark

    if engine not in ("", "fabric", "spark"):
        raise typer.BadParameter(f"{engine!r} is not an engine; use fabric or spark")
    if engine != "spark":
        return connect(address or LOCAL, token=token or None)
    if not address or is_spark(address):
        return connect(address or "spark")
    return connect("spark", datasets=address, token=token or None)
