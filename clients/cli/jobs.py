"""``fabric jobs``, ``top`` and ``checkpoints``: jobs, and what their streams have saved.

One job: look at jobs, also all at once as they run; stop one, run it again; list the checkpoints of
a stream and show one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session, session_of
from fabric.errors import PeerLostError

if TYPE_CHECKING:
    from rich.console import Group

    from fabric.checkpoint.manifest import Manifest
    from fabric.clients.job.stream_name import Parallelism
    from fabric.clients.session.session import Session


jobs_app = typer.Typer(
    help="List jobs; show, stop, rescale, cancel, restart or release one; read its logs.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.")]
Last = Annotated[int, typer.Option("--last", "-n", min=1, help="So many of the newest.")]
States = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only jobs that are so; may be repeated."),
]
JOBS_SHOWN = 100


@jobs_app.callback(invoke_without_command=True)
def jobs(context: typer.Context, connect: Connect = LOCAL, token: Token = "") -> None:
    """List the newest jobs of a fabric, oldest first."""
    context.obj = (connect, token)
    if context.invoked_subcommand is None:
        _list(context, connect, token, JOBS_SHOWN, [])


@jobs_app.command("list")
def list_jobs(
    context: typer.Context,
    last: Last = JOBS_SHOWN,
    state: States = None,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """List the newest jobs of a fabric, oldest first."""
    _list(context, connect, token, last, state or [])


@jobs_app.command("show")
def show_job(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """The stages and tasks of a job, and how to read its result."""
    from fabric.clients.cli.tables import show, tasks_table
    from fabric.errors import NotFoundError

    with session_of(context, connect, token) as session:
        found = session.job(job)
        typer.echo(found.explain())
        try:
            show(tasks_table(found.tasks()), "")
        except NotFoundError as error:  # of a released job only the stages are known
            typer.echo(f"  {error.message}")
        if found.state == "finished" and found.result_path:
            for partition in found.partitions():
                typer.echo(f"  {partition!r}")


@jobs_app.command()
def cancel(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """Stop a job; nothing it wrote stays, but what a stream has published does."""
    with session_of(context, connect, token) as session:
        typer.echo(repr(session.job(job).cancel()))


@jobs_app.command()
def stop(
    *,
    context: typer.Context,
    job: JobId,
    savepoint: Annotated[
        str | None, typer.Option("--savepoint", metavar="NAME", help="Keep its last checkpoint so.")
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Close all windows: the stream is over then.")
    ] = False,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """Stop a stream at a checkpoint that it takes now; run its program again to go on.

    If the checkpoint fails, the stream goes on as before.
    """
    with session_of(context, connect, token) as session:
        typer.echo(repr(session.job(job).stop(savepoint, drain=drain)))


@jobs_app.command()
def rescale(
    *,
    context: typer.Context,
    job: JobId,
    parallelism: Annotated[
        str,
        typer.Argument(
            metavar="TASKS|slots",
            help="How many tasks each stage has from now on; slots: as many as there are.",
        ),
    ],
    connect: Connect = "",
    token: Token = "",
) -> None:
    """Give a running stream another number of tasks; it goes on from its newest checkpoint.

    The command ends when all of them run.
    """
    if parallelism != "slots" and not parallelism.isdecimal():
        raise typer.BadParameter(f'TASKS is a number or "slots", got {parallelism!r}')
    n_tasks: Parallelism = "slots" if parallelism == "slots" else int(parallelism)
    with session_of(context, connect, token) as session:
        typer.echo(repr(session.job(job).rescale(n_tasks)))


@jobs_app.command()
def restart(
    *,
    context: typer.Context,
    job: JobId,
    from_: Annotated[
        str, typer.Option("--from", metavar="NODE", help="The node path to begin with.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended.")] = False,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """Run an ended job again; what is still materialised is read, not computed."""
    with session_of(context, connect, token) as session:
        again = session.job(job).restart(from_)
        typer.echo(repr(again.wait() if wait else again))


@jobs_app.command()
def logs(
    context: typer.Context,
    job: JobId,
    last: Last = 1000,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """What happened to a job, and what its agents logged about it, oldest first."""
    from fabric.clients.cli.tables import log_lines

    with session_of(context, connect, token) as session:
        found = session.job(job)
        for line in log_lines(found.events(), found.logs())[-last:]:
            typer.echo(line)


@jobs_app.command()
def release(context: typer.Context, job: JobId, connect: Connect = "", token: Token = "") -> None:
    """Drop a job's partitions on every agent."""
    with session_of(context, connect, token) as session:
        typer.echo(repr(session.job(job).release()))


def _list(context: typer.Context, connect: str, token: str, last: int, states: list[str]) -> None:
    from fabric.clients.cli.tables import jobs_table, show, states_of
    from fabric.control import control_pb2 as pb

    wanted = states_of(states)
    with session_of(context, connect, token) as session:
        told = session.control.list_jobs(pb.ListRequest(limit=last, states=wanted))
    show(jobs_table(told.jobs), "no jobs yet" if not states else "no such jobs")
    if told.next:
        typer.echo(f"the newest {len(told.jobs)} jobs; --last shows more", err=True)


checkpoints_app = typer.Typer(
    help="List the checkpoints of a stream; show what is in one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
StreamId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a stream's job.")]
Number = Annotated[int, typer.Argument(metavar="CHECKPOINT", min=1, help="Its number.")]


@checkpoints_app.command("list")
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


@checkpoints_app.command("show")
def show_checkpoint(
    job: StreamId, checkpoint: Number, connect: Connect = LOCAL, token: Token = ""
) -> None:
    """One checkpoint, and what each task has in it."""
    from fabric.clients.cli.tables import checkpoints_table, parts_table, show

    with open_session(connect, token) as session:
        found = session.job(job).checkpoint(checkpoint)
        show(checkpoints_table([found]), "")
        show(parts_table(found.parts), "nothing of it is stored")


def _stored(folder: Path, job: str) -> Iterator[tuple[str, int, Manifest]]:
    """Each checkpoint that has a manifest, by job."""
    from fabric.checkpoint.places import storage_at
    from fabric.clients.cli.savepoints import existing
    from fabric.errors import NotFoundError

    storage = storage_at(existing(folder))
    for name in [job] if job else storage.jobs():
        for number in storage.checkpoints(name):
            with suppress(NotFoundError):  # a job that runs has just removed it
                yield name, number, storage.load(name, number)


_JOBS, _EVENTS = 15, 10


def top(
    once: Annotated[bool, typer.Option("--once", help="One picture, then end.")] = False,
    every_s: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")
    ] = 1.0,
    all_: Annotated[
        bool, typer.Option("--all", help="Lost agents and cancelled jobs, too.")
    ] = False,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """Show agents, jobs and events live; Ctrl-C ends it.

    Agents that were lost and jobs that were cancelled are left out, unless --all is given.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with open_session(connect, token) as session:
        if once or not console.is_terminal:
            wide = console if console.is_terminal else Console(width=200)
            wide.print(picture(session, everything=all_))
            return
        first = picture(session, everything=all_)
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every_s)
                live.update(_seen(session, everything=all_), refresh=True)


def _seen(session: Session, *, everything: bool) -> Group:
    """The picture, or that nobody answers just now: a coordinator that restarts comes back."""
    from rich.console import Group

    try:
        return picture(session, everything=everything)
    except PeerLostError as error:
        return Group(error.message)


def picture(session: Session, *, everything: bool = False) -> Group:
    """One frame; with `everything` also of agents that are gone and jobs that were cancelled."""
    from rich.console import Group
    from rich.text import Text

    from fabric.clients.cli.tables import agents_table, events_table, jobs_table
    from fabric.control import control_pb2 as pb
    from fabric.control.api import STATES

    agents = session.agents(lost=everything)
    states = [] if everything else [state for state in STATES if state != pb.JOB_CANCELLED]
    jobs = session.control.list_jobs(pb.ListRequest(limit=_JOBS, states=states)).jobs
    events = session.control.list_events(pb.EventsRequest(last=_EVENTS)).events
    running = sum(job.state == pb.JOB_RUNNING for job in jobs)
    there = [agent for agent in agents if agent.state != "failed"]
    tasks, slots = sum(a.running_tasks for a in there), sum(a.slots for a in there)
    head = f"{len(there)} agents, {tasks} of {slots} slots busy, {running} jobs running"
    return Group(
        Text(head, style="bold"),
        "",
        agents_table(agents),
        "",
        jobs_table(reversed(jobs)),
        "",
        events_table(reversed(events)),
    )
