"""``fabric metadata``: the database of coordinators, made ready by whoever owns it.

One job: the command line of `coordinator/metadata/postgres/migrations.py`. Coordinators themselves
run as a role that can only read and write rows.
"""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="Make a PostgreSQL database ready for coordinators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SCHEMA = "fabric"


@app.command("migrate", short_help="Make or update the tables.")
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


@app.command("grants", short_help="Print what the coordinators' role needs.")
def grants(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role that runs coordinators.")],
) -> None:
    """Print the SQL that lets a role run coordinators and nothing else; to be run after migrate."""
    from fabric.coordinator.metadata.postgres import migrations

    typer.echo(migrations.grants(SCHEMA, role), nl=False)
