"""``fabric agents``, ``datasets`` and ``metadata``: what who runs a fabric looks after.

One job: list the agents and drain one, list the datasets, and make the database of coordinators
ready. The latter is the command line of `coordinator/metadata/postgres/migrations.py`, for whoever
owns the database: coordinators themselves run as a role that can only read and write rows.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

agents_app = typer.Typer(
    help="List agents; drain one.", invoke_without_command=True, rich_markup_mode=None
)


@agents_app.callback(invoke_without_command=True)
def agents(context: typer.Context, connect: Connect = LOCAL, token: Token = "") -> None:
    """List the agents of a fabric."""
    context.obj = (connect, token)
    if context.invoked_subcommand is None:
        _list(connect, token)


@agents_app.command("list")
def list_agents(context: typer.Context, connect: Connect = "", token: Token = "") -> None:
    """List the agents of a fabric."""
    outer_connect, outer_token = context.obj
    _list(connect or outer_connect, token or outer_token)


@agents_app.command()
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


def datasets(connect: Connect = LOCAL, token: Token = "") -> None:
    """List the datasets of a fabric.

    Lacking are partitions with fewer attached owners than the dataset has replicas.
    """
    from fabric.clients.cli.tables import datasets_table, show

    with open_session(connect, token) as session:
        show(datasets_table(session.dataset_list()), "there are no datasets")


metadata_app = typer.Typer(
    help="Make a PostgreSQL database ready for coordinators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SCHEMA = "fabric"


@metadata_app.command("migrate", short_help="Make or update the tables.")
def migrate(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="As the role that owns the tables: postgresql://owner@host:5432/database. Its "
            "password comes from the file that PGPASSFILE names.",
        ),
    ],
    role: Annotated[
        str, typer.Option("--role", help="Also let this role, which exists, run coordinators.")
    ] = "",
) -> None:
    """Make the tables in the schema "fabric", or update them; may be run again at any time."""
    from fabric.coordinator.metadata.postgres.database import Database

    database = Database(address, SCHEMA)
    made = database.migrate()
    typer.echo(f"{database.shown}: {made or 'no'} step{'' if made == 1 else 's'} made, up to date")
    if role:
        database.grant(role)
        typer.echo(f"{role} may run coordinators")


@metadata_app.command("grants", short_help="Print what the coordinators' role needs.")
def grants(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role that runs coordinators.")],
) -> None:
    """Print the SQL that lets a role run coordinators and nothing else; to be run after migrate."""
    from fabric.coordinator.metadata.postgres import migrations

    typer.echo(migrations.grants(SCHEMA, role), nl=False)
