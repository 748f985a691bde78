"""``fabric checkpoints``: what the streams of a fabric have made durable."""

from __future__ import annotations

from typing import Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

app = typer.Typer(
    help="List the checkpoints of a stream; show what is in one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a stream's job.")]
Number = Annotated[int, typer.Argument(metavar="CHECKPOINT", min=1, help="Its number.")]


@app.command("list")
def list_checkpoints(job: JobId, connect: Connect = LOCAL, token: Token = "") -> None:
    """The checkpoints that are kept, those given up lately, and the one under way."""
    from fabric.clients.cli.tables import checkpoints_table, show

    with open_session(connect, token) as session:
        show(checkpoints_table(session.job(job).checkpoints()), "the job has no checkpoints")


@app.command("show")
def show_checkpoint(
    job: JobId, checkpoint: Number, connect: Connect = LOCAL, token: Token = ""
) -> None:
    """One checkpoint, and what each task has in it."""
    from fabric.clients.cli.tables import checkpoints_table, parts_table, show

    with open_session(connect, token) as session:
        found = session.job(job).checkpoint(checkpoint)
        show(checkpoints_table([found]), "")
        show(parts_table(found.parts), "nothing of it is stored")
