"""``fabric streams``: streams that have a name, whose state outlives the program.

One job: list them, and drop the name of one with all of its checkpoints. They are those of a
running fabric, or with ``--folder`` those of a checkpoint folder.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session
from fabric.clients.cli.savepoints import Folder, existing

if TYPE_CHECKING:
    from fabric.checkpoint.names import NamedStream
    from fabric.clients.job.savepoint import StreamInfo

streams_app = typer.Typer(
    help="List streams that have a name; drop one with its checkpoints.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@streams_app.command("list")
def list_streams(folder: Folder = None, connect: Connect = LOCAL, token: Token = "") -> None:
    """All streams that have a name: whether one runs, and the checkpoint it would go on from.

    Those of a running fabric, or with --folder those that lie there, also when nobody runs.
    """
    from fabric.checkpoint.places import named_streams
    from fabric.clients.cli.tables import show, streams_table

    if folder is not None:
        found = [_info(one) for one in named_streams(existing(folder))]
        where = f"in {folder}"
    else:
        with open_session(connect, token) as session:
            found = session.streams()
        where = "there"
    show(streams_table(found, time.time()), f"no streams with a name are {where}")


@streams_app.command("drop")
def drop_stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as list shows it.")],
    folder: Folder = None,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """Forget the name of a stream, and remove its checkpoints; its savepoints stay.

    A program of that name begins anew. What its sinks had not put out yet is lost. A stream that is
    running is refused.
    """
    from fabric.checkpoint import places

    if folder is not None:
        places.drop_stream(existing(folder), name)
    else:
        with open_session(connect, token) as session:
            session.drop_stream(name)
    typer.echo(f"dropped stream {name}")


def _info(one: NamedStream) -> StreamInfo:
    """What a session would say of one."""
    from datetime import datetime

    from fabric.clients.job.savepoint import StreamInfo

    record, newest = one.record, one.newest
    return StreamInfo(
        name=one.name, error=one.error, runs_in=one.runs_in,
        checkpoint=newest.checkpoint if newest else 0, bytes=newest.n_bytes if newest else 0,
        rows=newest.n_rows if newest else None,
        taken=datetime.fromtimestamp(newest.wall_us / 1e6) if newest else None,
        starts=record.starts if record else 0, job_id=record.state if record else "",
        ended=record is not None and record.ended,
    )  # fmt: skip
