"""``fabric agents``, ``datasets``, ``config`` and ``metadata``: what who runs a fabric looks after.

One job: list the agents and drain one, list the datasets, show the settings, and make the database
of coordinators ready. The latter is the command line of
`coordinator/metadata/postgres/migrations.py`, for whoever owns the database: coordinators
themselves run as a role that can only read and write rows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from fabric.clients.cli.options import (
    LOCAL,
    Connect,
    Home,
    Token,
    home_of,
    open_session,
    session_of,
)
from fabric.settings import FILE, Setting, explain

agents_app = typer.Typer(
    help="List agents; drain one.", invoke_without_command=True, rich_markup_mode=None
)


@agents_app.callback(invoke_without_command=True)
def agents(context: typer.Context, connect: Connect = LOCAL, token: Token = "") -> None:
    """List the agents of a fabric."""
    context.obj = (connect, token)
    if context.invoked_subcommand is None:
        _list(context, connect, token)


@agents_app.command("list")
def list_agents(context: typer.Context, connect: Connect = "", token: Token = "") -> None:
    """List the agents of a fabric."""
    _list(context, connect, token)


@agents_app.command()
def drain(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The id of an agent.")],
    undo: Annotated[bool, typer.Option("--undo", help="Give it tasks again.")] = False,
    connect: Connect = "",
    token: Token = "",
) -> None:
    """Give an agent no further tasks, and move what it holds to others."""
    with session_of(context, connect, token) as session:
        told = session.drain(agent, undo=undo)
    typer.echo(f"agent {told.agent_id}: {told.state}")


def _list(context: typer.Context, connect: str, token: str) -> None:
    from fabric.clients.cli.tables import agents_table, show

    with session_of(context, connect, token) as session:
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


_PASSWORD = re.compile(r"(://[^/@\s:]*):[^@\s]*@")


def config(
    explain_all: Annotated[
        bool, typer.Option("--explain", help="Every setting, not only those that were set.")
    ] = False,
    home: Home = None,
) -> None:
    """Print settings: those that are set, or with --explain all of them.

    An argument of a command says more than the environment, that more than the file, and that more
    than the default.
    """
    root = home_of(home).root
    settings = all_settings(root if home else None)
    wanted = settings if explain_all else [one for one in settings if one.origin != "default"]
    typer.echo(f"# file: {os.environ.get('FABRIC_CONFIG') or root / FILE}")
    if not wanted:
        typer.echo("# nothing is set; fabric config --explain prints all settings")
    for one in wanted:
        typer.echo("\n" + described(one))


def all_settings(home: Path | None) -> list[Setting]:
    """Those of an agent, a coordinator, planning anew, checkpoints and plans."""
    from fabric.config import AdaptiveConfig, AgentConfig, CheckpointConfig
    from fabric.coordinator.config import CoordinatorConfig
    from fabric.plan_rules import PlanRules

    environ = {**os.environ, **({"FABRIC_HOME": str(home)} if home else {})}
    return [
        *explain(AgentConfig, "agent", environ, home=home),
        *explain(CoordinatorConfig, "coordinator", environ, home=home),
        *explain(AdaptiveConfig, "adaptive", environ),
        *explain(CheckpointConfig, "checkpoint", environ),
        *explain(PlanRules, "plans", environ),
    ]


def described(one: Setting) -> str:
    """What, where, default, value and origin, in lines."""
    variables = [one.variable, *(f"FABRIC_{alias}".upper() for alias in one.aliases)]
    keys = [one.key, *one.aliases]
    lines = [
        f"{one.key} = {shown(one.name, one.value)}",
        f"  {one.meaning}{unit(one.name)}",
        f"  from {one.origin}, default {shown(one.name, one.default)}",
        f"  {' or '.join(variables)}; in the file: {' or '.join(keys)}",
    ]
    return "\n".join(lines)


def unit(name: str) -> str:
    """What a number of that name counts.

    >>> unit("idle_s"), unit("message_bytes"), unit("name")
    (' (seconds)', ' (bytes)', '')
    """
    for ending, text in (("_s", "seconds"), ("_bytes", "bytes"), ("_bytes_max", "bytes")):
        if name.endswith(ending):
            return f" ({text})"
    return " (bytes)" if name == "memory" else ""


def shown(name: str, value: Any) -> str:
    """`value` as it would be set; what is secret is masked."""
    from fabric.telemetry.logs import SECRET_WORDS

    if any(word in name for word in SECRET_WORDS):
        return "***"
    if value is None:
        return "off"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return os.pathsep.join(map(str, value)) or '""'
    return _PASSWORD.sub(r"\1:***@", str(value)) or '""'
