"""``fabric state``: what streams keep by key, as of their newest complete checkpoints.

One job: list the states that can be read, and show the rows of one, all of them or those of a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session

if TYPE_CHECKING:
    import pyarrow as pa

    from fabric.clients.session.kept_state import KeptState

state_app = typer.Typer(
    help="Show what streams keep by key, while they run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@state_app.command("list")
def list_states(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Of this job; else of all.")] = "",
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """The states that can be read: of a job, or of all that run."""
    from fabric.clients.cli.tables import show, states_table

    with open_session(connect, token) as session:
        found = session.states(job)
    show(states_table(found), "no readable state yet")


@state_app.command("show")
def show_state(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The step, as list shows it.")],
    state: Annotated[str, typer.Argument(metavar="STATE", help="One of several states.")] = "",
    *,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this key: a value for each key column, in order."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="So many rows; 0: all.")] = 20,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """The rows of one state, as of the newest complete checkpoint; the job is not slowed."""
    from fabric.clients.cli.tables import rows_table, show
    from fabric.clients.session.kept_state import KeptState

    with open_session(connect, token) as session:
        found = KeptState(session, job, path, state)
        most = limit + 1 if limit else 0  # one more says whether there are more
        rows = found.get_many(_typed(found, key)) if key else found.table(most)
    shown = rows.slice(0, limit) if limit else rows
    show(rows_table(shown), f"{path} keeps nothing" + (" of this key" if key else ""))
    if len(shown) < len(rows):
        typer.echo(f"the first {len(shown)} rows; --limit 0 shows all")


def _typed(state: KeptState, key: list[str]) -> pa.Table:
    """A key as the command line has it, under the types of its columns."""
    import pyarrow as pa

    from fabric.errors import DataError

    told = ", ".join(f"{name}: {state.schema.field(name).type}" for name in state.keys)
    if len(key) != len(state.keys):
        raise DataError(f"--key is given once for each of {told or 'no columns'}, got {key!r:.80}")
    try:
        columns = {
            name: pa.array([value]).cast(state.schema.field(name).type)
            for name, value in zip(state.keys, key, strict=True)
        }
    except pa.ArrowException as error:
        raise DataError(f"keys are {told}, got {key!r:.80}: {error}") from error
    return pa.table(columns)
