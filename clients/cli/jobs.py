"""``fabric jobs``: the jobs of a fabric; cancel or release one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

if TYPE_CHECKING:
    from fabric.clients.session.job import Job
    from fabric.clients.session.session import Session

app = typer.Typer(
    help="List jobs (also: cancel, release, show).", invoke_without_command=True,
    rich_markup_mode=None,
)  # fmt: skip
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.")]


@app.callback(invoke_without_command=True)
def jobs(context: typer.Context, connect: Connect = LOCAL, token: Token = "") -> None:
    """List the jobs of a fabric, oldest first."""
    context.obj = (connect, token)
    if context.invoked_subcommand is None:
        with open_session(connect, token) as session:
            _print(session.jobs())


@app.command()
def cancel(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """Stop a job; nothing it wrote stays."""
    with _session(context, connect, token) as session:
        typer.echo(repr(session.job(job).cancel()))


@app.command()
def release(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """Drop a job's partitions on every agent."""
    with _session(context, connect, token) as session:
        typer.echo(repr(session.job(job).release()))


@app.command()
def show(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """The stages of a job, and how to read its result."""
    with _session(context, connect, token) as session:
        found = session.job(job)
        typer.echo(found.explain())
        if found.state == "finished" and found.result_path:
            for partition in found.partitions():
                typer.echo(f"  {partition!r}")


def _session(context: typer.Context, connect: str, token: str) -> Session:
    """Options may stand before or after the subcommand."""
    outer_connect, outer_token = context.obj
    return open_session(connect or outer_connect, token or outer_token)


def _print(found: list[Job]) -> None:
    if not found:
        typer.echo("no jobs yet")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("job", "name", "state", "tasks", "rows", "seconds", "error"):
        table.add_column(name, justify="right" if name in ("tasks", "rows", "seconds") else "left")
    for job in found:
        status = job.last
        table.add_row(
            job.id,
            job.name,
            job.state,
            f"{sum(s.finished for s in status.stages)}/{sum(s.n_tasks for s in status.stages)}",
            f"{status.result_rows:,}",
            f"{status.seconds:.2f}",
            f"{status.error.kind}: {status.error.message}" if status.HasField("error") else "",
        )
    console = Console()
    console.print(table) if console.is_terminal else Console(width=240).print(table)
