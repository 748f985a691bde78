"""The command ``fabric``: its subcommands, and how its errors look.

One job: the door. Each subcommand is a file of its own. A user's mistake is one red line on stderr
and exit code 1 (2 for wrong usage); a traceback comes with ``--debug`` only.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from fabric.clients.cli import (
    admin,
    doctor,
    jobs,
    options,
    run,
    savepoints,
    serve,
    states,
    streams,
    up,
    worker,
)  # fmt: skip
from fabric.errors import FabricError

_STOPPED = 130
_ANYWHERE = ("--debug", "--insecure")
app = typer.Typer(
    name="fabric",
    help="Arrow Flight dataflow: start a fabric, run files on it, look at its jobs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up", short_help="Start a coordinator and agents here.")(up.up)
app.command("agent", short_help="Run one agent.")(serve.agent)
app.command("coordinator", short_help="Run one coordinator.")(serve.coordinator)
app.command(
    "run",
    short_help="Run a Python file.",
    context_settings={"allow_interspersed_args": False},
)(run.run)
app.command("worker", short_help="Run an App: fabric -A module:app worker.")(worker.worker)
app.command("explain", short_help="Show what a Python file would run.")(run.explain)
app.add_typer(jobs.jobs_app, name="jobs")
app.add_typer(jobs.checkpoints_app, name="checkpoints")
app.add_typer(savepoints.savepoints_app, name="savepoints")
app.add_typer(streams.streams_app, name="streams")
app.add_typer(states.state_app, name="state")
app.add_typer(admin.agents_app, name="agents")
app.command("datasets", short_help="List datasets.")(admin.datasets)
app.command("top", short_help="Agents, jobs and events, live.")(jobs.top)
app.command("config", short_help="Settings, and where they come from.")(admin.config)
app.add_typer(admin.metadata_app, name="metadata")
app.command("doctor", short_help="Check that all that is needed is here.")(doctor.doctor)
app.add_typer(run.demo_app, name="demo")


def _version(wanted: bool) -> None:
    if wanted:
        import fabric

        typer.echo(f"fabric {fabric.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    *,
    app: worker.AppOption = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Send the token to another machine without TLS: it can be read."
        ),
    ] = False,
) -> None:
    """What stands before a subcommand; `main` takes --debug and --insecure from anywhere."""
    context.meta[worker.META] = app


def entry() -> NoReturn:
    """The command itself: `main`, then the end of the process.

    After Ctrl-C the process ends without taking the interpreter down: a thread of the query engine
    may be inside a Python function just then, and would abort the process half way.
    """
    code = main()
    if code == _STOPPED:
        from fabric.clients.dataframe.session import close_all

        close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the entry point exits with what this returns."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    own = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in own or os.environ.get("FABRIC_DEBUG", "") not in ("", "0")
    rest = [argument for argument in own if argument not in _ANYWHERE] + given[len(own) :]
    try:
        with options.insecurely("--insecure" in own):
            app(rest, prog_name="fabric", obj=serve.OWN_PROCESS if arguments is None else None)
    except SystemExit as done:
        if done.code == _STOPPED:  # Ctrl-C, which typer takes without a word
            _complain("stopped", debug)
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except KeyboardInterrupt:
        _complain("stopped", debug)
        return _STOPPED
    except FabricError as error:
        _complain(f"{type(error).__name__}: {error}", debug)
        return 1
    return 0


def _complain(text: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    line = " ".join(text.split())
    typer.secho(f"fabric: {line}", fg=typer.colors.RED, err=True)


if __name__ == "__main__":
    entry()
