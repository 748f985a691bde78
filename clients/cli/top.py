"""``fabric top``: agents, jobs and events of a fabric, as they change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session
from fabric.errors import PeerLostError

if TYPE_CHECKING:
    from rich.console import Group

    from fabric.clients.session.session import Session

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
