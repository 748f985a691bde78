"""``fabric -A module:app worker``: run an App, here or on a fabric, until Ctrl-C.

One job: import the module, find the one App in it, start it, and wait. It stops at a checkpoint, so
that the same command goes on from there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from fabric.clients.cli.options import Token, open_session
from fabric.clients.cli.processes import POLL_S, stop_asked
from fabric.errors import NotFoundError, UserError

if TYPE_CHECKING:
    from fabric.clients.app.app import App

AppOption = Annotated[
    str, typer.Option("--app", "-A", metavar="MODULE[:NAME]", show_default=False,
                      help="The App that a worker runs, such as orders:app.")
]  # fmt: skip
META = "fabric.app"
"""Where the root command leaves what -A was given."""


def worker(
    context: typer.Context,
    *,
    url: Annotated[
        str, typer.Option("--url", metavar="ADDRESS", envvar="FABRIC_ADDRESS",
                          help="The fabric to run it on, such as fabric://host:6123; default: in "
                          "this process.")
    ] = "",
    token: Token = "",
    parallelism: Annotated[
        int | None, typer.Option("--parallelism", "-p", min=1, metavar="N",
                                 help="Tasks of each agent; default: as the session has it.")
    ] = None,
) -> None:  # fmt: skip
    """Run all agents of an App as one job until Ctrl-C, which stops it at a checkpoint.

    Run again, it goes on from there. The module is looked for in this folder, too.
    """
    given = context.meta.get(META, "")
    with open_session(url, token) if url else nullcontext(), _this_folder():
        app = find_app(given)
        job = app.run(parallelism=parallelism)
        names = ", ".join(app.agents)
        typer.echo(f"app {app.name}: agents {names}; job {job.id}; Ctrl-C stops at a checkpoint")
        with stop_asked() as stop:
            while not stop.wait(POLL_S) and job.state in ("queued", "running"):
                pass
        if stop.is_set():
            job.stop()
            typer.echo(f"app {app.name}: stopped; fabric -A {given} worker goes on from there")
        else:
            job.wait()
            typer.echo(f"app {app.name}: its streams have ended")


def find_app(given: str) -> App:
    """The App that ``MODULE`` or ``MODULE:NAME`` names.

    Raises
    ------
    UserError
        Nothing is named, the module can't be imported, or it has several Apps.
    NotFoundError
        There is no such module, or it has no such App.
    """
    if not given:
        raise UserError("a worker needs the App to run; write: fabric -A orders:app worker")
    name, _, attribute = given.partition(":")
    module = _imported(name)
    found = _apps(module)
    if attribute:
        if attribute in found:
            return found[attribute]
        known = ", ".join(found) or "none"
        raise NotFoundError(f"{name} has no App called {attribute}; its Apps are: {known}")
    if not found:
        raise NotFoundError(f'{name} has no App; write in it: app = fabric.App("orders")')
    if len(found) > 1:
        first, *_ = found
        raise UserError(
            f"{name} has {len(found)} Apps: {', '.join(found)}; name one: "
            f"fabric -A {name}:{first} worker"
        )
    return next(iter(found.values()))


def _apps(module: ModuleType) -> dict[str, App]:
    """The Apps of a module by their names; one with two names once."""
    from fabric.clients.app.app import App

    found: dict[str, App] = {}
    for name, value in vars(module).items():
        if isinstance(value, App) and value not in found.values():
            found[name] = value
    return found


def _imported(name: str) -> ModuleType:
    from fabric.operators.functions.user_code import said

    if name.endswith(".py") or "/" in name:
        raise UserError(
            f"-A takes a module, not a file, got {name}; write: -A {Path(name).stem}:app"
        )
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFoundError(
                f"there is no module {name} in {Path.cwd()} or among the installed packages"
            ) from error
        raise UserError(f"the module {name} can't be imported: {said(error)}") from error
    except Exception as error:  # whatever the user's module does when it is imported
        raise UserError(f"the module {name} can't be imported: {said(error)}") from error


@contextmanager
def _this_folder() -> Iterator[None]:
    """Modules are found where the command runs."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
