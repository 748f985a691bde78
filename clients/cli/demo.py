"""``fabric demo flights``: the main job, from CSV to agents to Spark and back."""

from __future__ import annotations

from typing import Annotated

import typer

from fabric.clients.cli.stopping import ctrl_c_ends

app = typer.Typer(help="Demonstrations that check themselves.", rich_markup_mode=None)


@app.callback()
def _demo() -> None:
    """Demonstrations that check themselves."""


@app.command()
def flights(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the fabric up and print a snippet.")
    ] = False,
    without_spark: Annotated[
        bool, typer.Option("--without-spark", help="Skip the steps that need Java.")
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            help="Have the stream read a topic of Kafka; starts a broker (needs Maven, Java).",
        ),
    ] = False,
    servers: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="The same, with brokers that run already."),
    ] = "",
) -> None:
    """Real flights through Fabric, two agents and Spark; compared with DuckDB."""
    with ctrl_c_ends():
        from fabric.clients.demo.flights import run

        code = run(keep=keep, with_spark=not without_spark, kafka=kafka, servers=servers)
    raise typer.Exit(code)
