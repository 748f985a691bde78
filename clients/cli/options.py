"""Options that several subcommands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.config import FabricHome
from fabric.errors import AuthError, ConfigError

if TYPE_CHECKING:
    from fabric.clients.session.session import Session

LOCAL = "fabric://127.0.0.1:6123"

Connect = Annotated[
    str, typer.Option("--connect", "-c", metavar="ADDRESS", envvar="FABRIC_ADDRESS",
                      help="The fabric to use, such as fabric://host:6123 or "
                      "fabric://a:6123,b:6123.")
]  # fmt: skip
Token = Annotated[
    str, typer.Option("--token", metavar="FILE", show_default=False,
                      help="The file with the token, - is stdin; default: the variable "
                      "FABRIC_TOKEN, else the file 'token' in the state folder.")
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


_insecure: ContextVar[bool] = ContextVar("insecure", default=False)
_SHAPE = re.compile(r"fab\d\.")
_TOKEN_BYTES_MAX = 16 << 10


@contextmanager
def insecurely(given: bool) -> Iterator[None]:
    """In here `open_session` sends tokens in the clear to other machines, too, if it is `given`."""
    token = _insecure.set(given)
    try:
        yield
    finally:
        _insecure.reset(token)


def read_token(given: str) -> str:
    """The token in a file, or of stdin for ``-``; "" when nothing is given."""
    if _SHAPE.match(given):
        raise ConfigError(
            "--token takes a file that holds the token, or - for stdin, not the token itself: all "
            "users of this machine can read command lines; use another one, this one was seen"
        )
    if not given:
        return ""
    try:
        with nullcontext(sys.stdin) if given == "-" else open(given, encoding="ascii") as source:
            token = source.read(_TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds no token"
        raise AuthError(f"can't read the token file {given}: {why}") from error
    if not token:
        raise AuthError(f"{'stdin' if given == '-' else f'the token file {given}'} is empty")
    return token


def home_of(home: Path | None) -> FabricHome:
    """The state folder that was given, or the default."""
    return FabricHome(home.expanduser().absolute()) if home else FabricHome()


def session_of(context: typer.Context, connect: str, token: str) -> Session:
    """A session on the fabric of a subcommand; options may stand before or after its name."""
    outer_connect, outer_token = context.obj
    return open_session(connect or outer_connect, token or outer_token)


def open_session(address: str, token: str, engine: str = "") -> Session:
    """A session on the fabric at `address`, or with `engine` "spark" on Spark.

    There `address` is a master, or a fabric: that of the datasets.
    """
    from fabric.clients.session.address import is_spark
    from fabric.clients.session.connect import connect

    shown, insecure = read_token(token) or None, _insecure.get()
    if engine not in ("", "fabric", "spark"):
        raise typer.BadParameter(f"{engine!r} is not an engine; use fabric or spark")
    if engine != "spark":
        return connect(address or LOCAL, token=shown, insecure=insecure)
    if not address or is_spark(address):
        return connect(address or "spark")
    return connect("spark", datasets=address, token=shown, insecure=insecure)
