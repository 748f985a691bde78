"""``fabric checkpoints``: what the streams of a fabric have made durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

if TYPE_CHECKING:
    from fabric.checkpoint.manifest import Manifest

app = typer.Typer(
    help="List the checkpoints of a stream; show what is in one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a stream's job.")]
Number = Annotated[int, typer.Argument(metavar="CHECKPOINT", min=1, help="Its number.")]


@app.command("list")
def list_checkpoints(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="The id of a stream's job.")] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="FOLDER", help="What lies there, such as ~/.fabric/checkpoints."
        ),
    ] = None,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """The checkpoints of JOB that are kept, those given up lately, and the one under way.

    With --folder: those of whatever jobs lie there whole, also when nobody runs them any more. A
    job's folder may be removed then.
    """
    from fabric.clients.cli.tables import checkpoints_table, show, stored_table

    if folder is not None:
        show(stored_table(_stored(folder, job)), f"no checkpoints lie in {folder}")
        return
    if not job:
        raise typer.BadParameter("name a JOB of a running fabric, or a --folder")
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


def _stored(folder: Path, job: str) -> Iterator[tuple[str, int, Manifest]]:
    """Each checkpoint that has a manifest, by job."""
    from fabric.checkpoint.storage import FolderStorage
    from fabric.errors import NotFoundError

    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder}")
    storage = FolderStorage(folder.absolute())
    for name in [job] if job else storage.jobs():
        for number in storage.checkpoints(name):
            with suppress(NotFoundError):  # a job that runs has just removed it
                yield name, number, storage.load(name, number)
