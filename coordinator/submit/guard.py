"""Whether a submitted plan touches only what plans may: files, servers, functions.

One job: `check_allowed`, before a source is asked for its splits. The coordinator's settings decide
here, by its own view of the files; each agent looks again by its settings when it opens or writes
them (`fabric.io.places`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fabric.checkpoint.places import Place, folder_of_savepoint, shown
from fabric.errors import FabricError
from fabric.io import places
from fabric.io.kafka import settings
from fabric.io.object_options import check_reach
from fabric.io.postgres.access import check_place
from fabric.io.read_threads import called
from fabric.object_urls import is_object_url
from fabric.operators.functions.trust import placed_functions
from fabric.plan.nodes import Node, Plan, Scan, Sink, StreamScan
from fabric.plan.sources import FileSource, FlightSource, FollowedFiles, KafkaStream, ReplayStream
from fabric.plan.targets import (
    FileTarget,
    FlightTarget,
    KafkaTarget,
    PostgresTarget,
    StreamFileTarget,
)
from fabric.plan.walk import walk


def check_allowed(plan: Plan) -> None:
    """Refuse a plan that touches what this process guards; the error names the node.

    Raises
    ------
    PlanError
        A source or sink is the fabric's own or not in `allowed_folders`, a Flight server not among
        `allowed_hosts`, or there is a Python function and `allow_functions` is off.
    """
    for node in walk(plan.root):
        with placed(node):
            match node:
                case Scan() | StreamScan():
                    _check_source(node.source)
                case Sink():
                    _check_target(node.target)
    for node, udf in placed_functions(plan.root):
        with placed(node):
            places.check_functions([udf.name])


def check_restore(savepoint: str, folder: Place) -> str:
    """The name of a savepoint, if a job whose checkpoints lie in `folder` may begin with it.

    Raises
    ------
    PlanError
        Plans are held to folders, and the savepoint lies in a store, but not in that folder.
    """
    if is_object_url(savepoint):
        places.check_url(folder_of_savepoint(savepoint), own=shown(folder))
    return savepoint


@contextmanager
def placed(node: Node) -> Iterator[None]:
    """Errors in here name the node."""
    try:
        yield
    except FabricError as error:
        raise error.at(node=node.path) from error.__cause__


def _check_source(source: object) -> None:
    match source:
        case FileSource(paths=paths):
            _check_read(paths, places.check_input)
            check_reach(source, paths)
        case FollowedFiles(path=path):
            _check_read([path], places.check_input)
            check_reach(source, [path])
        case FlightSource(uri=uri):
            places.check_host(uri)
        case ReplayStream(source=inner):
            _check_source(inner)
        case KafkaStream():
            settings.check_reach(source)


def _check_read(paths: Sequence[str], check_one: Callable[[str], None]) -> None:
    def check() -> None:
        for path in paths:
            check_one(path)

    called(check, paths[0] if paths else "nothing")


def _check_target(target: object) -> None:
    match target:
        case FileTarget(path=path) | StreamFileTarget(path=path):
            places.check_output(path)
            check_reach(target, [path])
        case FlightTarget(uri=uri):
            places.check_host(uri)
        case KafkaTarget():
            settings.check_reach(target)
        case PostgresTarget():
            check_place(target)
