"""``fabric run FILE``, ``fabric explain FILE`` and ``fabric demo``: plans that Python files hold.

One job: execute the file and find what it made. A file may do everything at its top level; or leave
a DataFrame called ``df`` or ``plan``; or define ``main()``, which is called and may return one. One
without ``main()`` that asks for ``__name__ == "__main__"`` is run as Python itself would.
``fabric demo flights`` runs the demo of `fabric.clients.demo`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from fabric.clients.cli.options import Connect, Engine, Token, open_session
from fabric.clients.cli.processes import ctrl_c_ends
from fabric.clients.job.dry_run import DryRun, NotRun, dry_run
from fabric.errors import FabricError, NotFoundError, UserError

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.dataframe.session import Session


File = Annotated[Path, typer.Argument(metavar="FILE", help="A Python file.")]
_NAMES = ("df", "plan")


def run(
    file: File,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="What FILE sees in sys.argv.")
    ] = None,
    *,
    connect: Connect = "",
    token: Token = "",
    engine: Engine = "",
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Rows to print.")] = 20,
) -> None:
    """Run FILE: embedded, on the fabric of --connect, or on Spark (give options before FILE).

    The file may work at its top level, leave a DataFrame named df or plan (it is shown), or define
    main(), which is called; a DataFrame it returns is shown.
    """
    with _session(connect, token, engine):
        frame = load(file, arguments or [], as_script=True)
        if frame is not None:
            with _at_line_of(file):
                frame.show(rows)


def explain(
    file: File,
    *,
    connect: Connect = "",
    token: Token = "",
    engine: Engine = "",
    format: Annotated[str, typer.Option("--format", help="text or svg.")] = "text",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write there, not to the terminal.")
    ] = None,
) -> None:
    """Show what FILE would run; nothing is computed or written.

    That is its DataFrame df or plan, what main() returns, or else the last one it named. FILE is
    executed up to the first line that would run a plan, and what that line runs is shown if there
    is no df or plan yet.
    """
    wanted: Literal["text", "svg"] = "svg" if format == "svg" else "text"
    if format not in ("text", "svg"):
        raise typer.BadParameter(f"{format!r} is not a format; use text or svg")
    with _session(connect, token, engine), dry_run(str(file)) as seen:
        frame, stopped = _planned(file, seen)
        for line in (*(f"not done: {what}" for what in seen.left_out), stopped):
            if line:
                typer.echo(line, err=True)
        if frame is None:
            raise NotFoundError(
                f"{file} leaves no DataFrame, and has no main() that returns one; name it df"
            )
        text = frame.explain(wanted)
    if output is None:
        typer.echo(str(text))
    else:
        output.write_text(str(text) + "\n", encoding="utf-8")


def _session(connect: str, token: str, engine: str) -> AbstractContextManager[object]:
    """Where FILE's frames run; without an address in this process."""
    return open_session(connect, token, engine) if connect or engine == "spark" else nullcontext()


def _planned(file: Path, seen: DryRun) -> tuple[DataFrame | None, str]:
    """The DataFrame to explain, and where FILE was left before something ran; "": at its end."""
    from fabric.clients.dataframe.frame import DataFrame

    try:
        named = load(file, [], as_script=False)
        stopped = seen.stopped
        if stopped is None:
            return named, ""
        place, end = f"a thread of {file}", "nothing was run"
    except NotRun as error:
        stopped, place = error, _line(error, file) or str(file)
        named = _frame(_globals(error, file), None, any_name=False)
        end = "nothing was run, and what follows it was not looked at"
    told = f"{place} would run {'something' if named is not None else 'what is shown'}; {end}"
    if named is not None:
        return named, told
    session = cast("Session | None", stopped.session)  # each is one; a plan knows it as a host
    return DataFrame.of(stopped.plan.root, dict(stopped.plan.config), session), told


def _globals(error: BaseException, file: Path) -> dict[str, Any]:
    """What `file` had named when `error` came out of it."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == str(file) and code.co_name == "<module>":
            return dict(trace.tb_frame.f_globals)
        trace = trace.tb_next
    return {}


def load(file: Path, arguments: list[str], *, as_script: bool) -> DataFrame | None:
    """Execute `file`; the DataFrame it leaves, or None when it leaves none.

    With `as_script` one that asks for ``__main__`` and has no ``main()`` does its own work, and
    only what is called df or plan is taken from others; without, any frame will do.
    """
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}")
    source = file.read_bytes()
    own = as_script and b"__main__" in source and b"def main(" not in source
    before, sys.argv = sys.argv, [str(file), *arguments]
    sys.path.insert(0, str(file.absolute().parent))
    try:
        with _at_line_of(file):
            left = runpy.run_path(str(file), run_name="__main__" if own else "__fabric__")
            returned = left["main"]() if callable(left.get("main")) and not own else None
    finally:
        sys.argv = before
        sys.path.remove(str(file.absolute().parent))
    return None if own else _frame(left, returned, any_name=not as_script)


def _frame(left: dict[str, Any], returned: Any, *, any_name: bool) -> DataFrame | None:
    from fabric.clients.dataframe.frame import DataFrame

    found = [returned, *(left.get(name) for name in _NAMES)]
    found += reversed(left.values()) if any_name else []
    return next((one for one in found if isinstance(one, DataFrame)), None)


@contextmanager
def _at_line_of(file: Path) -> Iterator[None]:
    """Errors out of the user's file name the file and the line."""
    try:
        yield
    except FabricError as error:
        place = _line(error, file)
        if place and not error.message.startswith(place):
            error.message = f"{place}: {error.message}"
        raise
    except Exception as error:
        place = _line(error, file) or str(file)
        text = error.msg if isinstance(error, SyntaxError) else error
        raise UserError(f"{place}: {type(error).__name__}: {text}") from error


def _line(error: BaseException, file: Path) -> str:
    """``file.py line 3``, the innermost line of `file` on the way to `error`."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{file} line {error.lineno}"
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            found = f"{file} line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


demo_app = typer.Typer(help="Demonstrations that check themselves.", rich_markup_mode=None)


@demo_app.callback()
def _demo() -> None:
    """Demonstrations that check themselves."""


@demo_app.command()
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
        from fabric.clients.demo import flights as demo

        code = demo.run(keep=keep, with_spark=not without_spark, kafka=kafka, servers=servers)
    raise typer.Exit(code)
