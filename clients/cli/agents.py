"""``fabric agents``: the agents of a fabric; send one away."""

from __future__ import annotations

from typing import Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

app = typer.Typer(
    help="List agents; drain one.", invoke_without_command=True, rich_markup_mode=None
)


@app.callback(invoke_without_command=True)
def agents(context: typer.Context, connect: Connect = LOCAL, token: Token = "") -> None:
    """List the agents of a fabric."""
    context.obj = (connect, token)
    if context.invoked_subcommand is None:
        _list(connect, token)


@app.command("list")
def list_agents(context: typer.Context, connect: Connect = "", token: Token = "") -> None:
    """List the agents of a fabric."""
    outer_connect, outer_token = context.obj
    _list(connect or outer_connect, token or outer_token)


@app.command()
def drain(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The id of an agent.")],
    undo: Annotated[bool, typer.Option("--undo", help="Give it tasks again.")] = False,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """Give an agent no further tasks, and move what it holds to others."""
    outer_connect, outer_token = context.obj
    with open_session(connect or outer_connect, token or outer_token) as session:
        told = session.drain(agent, undo=undo)
    typer.echo(f"agent {told.agent_id}: {told.state}")


def _list(connect: str, token: str) -> None:
    from fabric.clients.cli.tables import agents_table, show

    with open_session(connect, token) as session:
        show(
            agents_table(session.agents(lost=True)),
            "no agents are attached; `fabric agent` starts one",
        )
