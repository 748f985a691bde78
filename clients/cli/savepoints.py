"""``fabric savepoints``: checkpoints that are kept under a name.

One job: take one of a stream, list them, show what is in one, delete one, put one into a folder of
its own; and say what becomes of one under a program, and start that with it. They are those of a
running fabric, or with ``--folder`` those that lie there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fabric.clients.cli.options import LOCAL, Connect, Token, open_session
from fabric.clients.cli.run import File, load

if TYPE_CHECKING:
    from fabric.checkpoint.object_savepoints import ObjectSavepoints
    from fabric.checkpoint.savepoint import DamagedSavepoint, Savepoint
    from fabric.checkpoint.savepoints import Savepoints
    from fabric.clients.dataframe.session import Session
    from fabric.clients.job.stream_name import StreamName
    from fabric.control import control_pb2 as pb

savepoints_app = typer.Typer(
    help="List savepoints; create, show, delete, export or restore one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Its name, its folder's absolute path, or its URL."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", metavar="FOLDER",
        help="A checkpoint folder such as ~/.fabric/checkpoints; then no fabric is asked.",
    ),
]  # fmt: skip


@savepoints_app.command("list")
def list_savepoints(folder: Folder = None, connect: Connect = LOCAL, token: Token = "") -> None:
    """All savepoints, the newest first; of a damaged one, why it can't be used.

    Those of a running fabric, or with --folder those that lie there, also when nobody runs.
    """
    from fabric.clients.cli.tables import savepoints_table, show
    from fabric.control import control_pb2 as pb

    if folder is not None:
        found: Iterable[pb.SavepointStatus] = [_status(one) for one in _of(folder).list()]
        where = f"in {folder}"
    else:
        with open_session(connect, token) as session:
            found = session.control.list_savepoints(pb.SavepointsRequest()).savepoints
        where = "there"
    newest = sorted(found, key=lambda one: (-one.created_s, one.name))
    show(savepoints_table(newest, time.time()), f"no savepoints are {where}")


@savepoints_app.command()
def create(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The id of a stream's job.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")],
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """Take a checkpoint of a running stream now, and keep it; the stream goes on.

    It is kept until it is deleted. To stop the stream there as well: fabric jobs stop --savepoint.
    """
    with open_session(connect, token) as session:
        typer.echo(repr(session.job(job).savepoint(name)))


@savepoints_app.command("show")
def show_savepoint(
    name: Name, folder: Folder = None, connect: Connect = LOCAL, token: Token = ""
) -> None:
    """What is in a savepoint: its plan, and what each step and task has kept."""
    from fabric.checkpoint.places import shown
    from fabric.clients.cli.tables import counted, moment, nodes_table, plain, show, size

    found = _found(name, folder, connect, token)
    manifest = found.manifest
    for title, value in (
        ("savepoint", found.name),
        ("stream", found.stream or "it has no name"),
        ("job", f"{manifest.job} {found.job_name}"),
        ("checkpoint", f"{manifest.checkpoint} of {moment(manifest.wall_us / 1e6)}"),
        ("taken", moment(found.created_us / 1e6)),
        ("size", f"{size(found.n_bytes)} in {manifest.n_files:,} files"),
        ("rows", counted(manifest.n_rows) or "not counted"),
        ("written by", f"Fabric {found.release}, with {found.key_groups:,} key groups"),
        ("folder", "" if found.folder is None else shown(found.folder)),
    ):
        typer.echo(f"{title:<11} {plain(value)}")
    typer.echo("")
    show(nodes_table(manifest), "no step has kept anything")
    typer.echo("")
    for line in found.plan.splitlines():
        typer.echo(plain(line))


@savepoints_app.command("delete")
def delete_savepoint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as list shows it.")],
    folder: Folder = None,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """Remove a savepoint for good; checkpoints and other savepoints stay whole.

    A damaged one is removed by the name that list shows.
    """
    from fabric.control import control_pb2 as pb

    if folder is not None:
        _of(folder).delete(name)
    else:
        with open_session(connect, token) as session:
            session.control.delete_savepoint(pb.SavepointsRequest(name=name))
    typer.echo(f"deleted savepoint {name}")


@savepoints_app.command()
def export(
    name: Name,
    to: Annotated[Path, typer.Argument(metavar="TO", help="A folder that is empty or not there.")],
    folder: Folder = None,
    connect: Connect = LOCAL,
    token: Token = "",
) -> None:
    """Verify a savepoint, and put it into a folder: for a backup, or another fabric.

    On the file system of the checkpoints that takes no room: the files are hard links. One in an
    object store is downloaded. A stream can be started from the folder as from the savepoint,
    wherever its checkpoints lie.
    """
    from fabric.checkpoint.places import load_savepoint, shown
    from fabric.checkpoint.savepoints import Savepoints
    from fabric.errors import ConfigError
    from fabric.object_urls import is_object_url

    if is_object_url(to):
        raise ConfigError(
            f"{shown(to)} is not a folder; a savepoint is exported to a folder, and a stream whose "
            "checkpoints lie in a store can be started from that"
        )
    found = _found(name, folder, connect, token)
    assert found.folder is not None  # it was loaded
    target = to.expanduser().absolute()
    if is_object_url(found.folder):
        found = load_savepoint(target, shown(found.folder))
    Savepoints(target.parent).export(found, target)
    typer.echo(f"{found.name} is in {target}: {found.manifest.n_files:,} files, all verified")


Renames = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="A step and its new name; may be repeated."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="STEP", help="Leave its state behind; may be repeated."),
]


@savepoints_app.command()
def diff(
    name: Name, file: File, *, rename: Renames = None, drop: Drop = None, connect: Connect = "",
    token: Token = "",
) -> None:  # fmt: skip
    """What becomes of each state of a savepoint under the program FILE; nothing is started.

    The lines are those of `restore`. The exit code is 1 when a state is refused. FILE is executed
    up to the first stream that it would start.
    """
    from fabric.clients.job.dry_run import NotRun, dry_run
    from fabric.clients.job.stream_name import restoring
    from fabric.errors import PlanError

    with (
        open_session(connect, token) if connect else nullcontext(),
        dry_run(str(file)) as seen,
    ):
        try:
            with restoring(_asked(name, rename, drop)):
                load(file, [], as_script=True)
        except NotRun as stopped:
            seen.stopped = seen.stopped or stopped
        found = seen.stopped
        if found is None or found.stream is None or found.session is None:
            raise PlanError(f"{file} starts no stream with a name before anything else it runs")
        session = cast("Session", found.session)  # each is one; a plan knows it as a host
        reply = session.explain(found.plan, stream=found.stream)
    for line in reply.changes:
        typer.echo(line)
    if reply.refused:
        raise typer.Exit(1)


@savepoints_app.command()
def restore(
    name: Name, file: File, *, rename: Renames = None, drop: Drop = None, connect: Connect = "",
    token: Token = "",
) -> None:  # fmt: skip
    """Run FILE, as `fabric run` does; its first stream with a name begins with the savepoint."""
    from fabric.clients.job.stream_name import restoring

    with (
        open_session(connect, token) if connect else nullcontext(),
        restoring(_asked(name, rename, drop)),
    ):
        load(file, [], as_script=True)


def _asked(name: str, rename: list[str] | None, drop: list[str] | None) -> StreamName:
    from fabric.clients.job.stream_name import StreamName

    pairs = [tuple(each.split("=", 1)) for each in rename or []]
    renames = tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2 and all(pair))
    if len(renames) < len(pairs):
        raise typer.BadParameter("--rename takes OLD=NEW")
    return StreamName("", restore=name, renames=renames, drop=tuple(drop or ()))


def _of(folder: Path) -> Savepoints | ObjectSavepoints:
    """Those of a checkpoint folder."""
    from fabric.checkpoint.places import savepoints_at

    return savepoints_at(existing(folder))


def existing(folder: Path) -> Path:
    """A folder that somebody names, with its whole path; `NotFoundError`: it is not there."""
    from fabric.errors import NotFoundError
    from fabric.object_urls import is_object_url

    if is_object_url(folder):
        return folder
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder}")
    return folder.absolute()


def _status(one: Savepoint | DamagedSavepoint) -> pb.SavepointStatus:
    """What a coordinator would say of one."""
    from fabric.checkpoint.savepoint import DamagedSavepoint
    from fabric.control import control_pb2 as pb

    if isinstance(one, DamagedSavepoint):
        return pb.SavepointStatus(name=one.name, error=one.error.message)
    return pb.SavepointStatus(
        name=one.name, stream=one.stream, job_id=one.manifest.job, bytes=one.n_bytes,
        checkpoint=one.manifest.checkpoint, created_s=one.created_us / 1e6,
        files=one.manifest.n_files, release=one.release, rows=one.manifest.n_rows,
    )  # fmt: skip


def _found(name: str, folder: Path | None, connect: str, token: str) -> Savepoint:
    """The savepoint, read from a folder of this machine."""
    from fabric.checkpoint.places import load_savepoint
    from fabric.control import control_pb2 as pb
    from fabric.errors import NotFoundError
    from fabric.object_urls import is_object_url

    if Path(name).is_absolute() or is_object_url(name):
        return load_savepoint("/", name)
    if folder is not None:
        return _of(folder).load(name)
    with open_session(connect, token) as session:
        (told,) = session.control.list_savepoints(pb.SavepointsRequest(name=name)).savepoints
    if not is_object_url(told.location) and not Path(told.location).is_dir():
        raise NotFoundError(
            f"the savepoint {name!r} is in the folder {told.location} of the coordinator, which "
            "this machine does not see; run the command there"
        )
    return load_savepoint("/", told.location)
