"""What keeps the checkpoints of a folder: a file system, or the object store of a URL.

One job: to choose between the two, which have the same methods. Everybody who has the text or the
path of a checkpoint folder comes here. A URL that was made a `Path`, which has a slash less, is
still one.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from fabric.checkpoint import names, object_names
from fabric.checkpoint.folder import SAVEPOINTS
from fabric.checkpoint.local_copies import LocalCopies
from fabric.checkpoint.names import HeldName, NamedStream, NameRecord
from fabric.checkpoint.object_names import ObjectName
from fabric.checkpoint.object_savepoints import ObjectSavepoints
from fabric.checkpoint.object_storage import ObjectStorage
from fabric.checkpoint.savepoint import Savepoint
from fabric.checkpoint.savepoints import Savepoints
from fabric.checkpoint.storage import FolderStorage
from fabric.object_store import Bucket
from fabric.object_urls import ObjectUrl, is_object_url

Storage = FolderStorage | ObjectStorage
Place = str | os.PathLike[str]


def storage_at(folder: Place, local: Path | None = None) -> Storage:
    """The checkpoints of a folder; `local` is where copies of files in an object store are kept.

    >>> type(storage_at("/data/checkpoints")).__name__
    'FolderStorage'
    """
    if is_object_url(folder):
        copies = None if local is None else LocalCopies(local)
        return ObjectStorage(_bucket(str(ObjectUrl.of(folder))), copies)
    return FolderStorage(Path(folder))


def savepoints_at(folder: Place) -> Savepoints | ObjectSavepoints:
    """The savepoints of a checkpoint folder."""
    if is_object_url(folder):
        return ObjectSavepoints(_bucket(str(ObjectUrl.of(folder))))
    return Savepoints(Path(folder))


def folder_of_savepoint(url: Place) -> str:
    """The checkpoint folder of a savepoint's URL.

    >>> folder_of_savepoint("s3://data/streams/.savepoints/records/monday")
    's3://data/streams'
    """
    return shown(url).partition(f"/{SAVEPOINTS}/")[0]


def load_savepoint(folder: Place, name: str) -> Savepoint:
    """A savepoint, for a job whose checkpoints lie in `folder`; `adopt` there takes it.

    `name` is that of one in `folder`, or the absolute path of a folder, or a URL, with one.
    """
    if is_object_url(name):
        there = ObjectSavepoints(_bucket(at := folder_of_savepoint(name)))
        return there.load(shown(name)) if at == shown(folder) else there.portable(shown(name))
    if Path(name).is_absolute() and is_object_url(folder):
        return Savepoints(Path(name).parent).portable(name)
    return savepoints_at(folder).load(name)


def hold_name(folder: Place, name: str, *, take_over: bool = False) -> HeldName | ObjectName:
    """Hold the name of a stream; see `HeldName` and `ObjectName`."""
    if is_object_url(folder):
        return ObjectName(_bucket(str(ObjectUrl.of(folder))), name, take_over=take_over)
    return HeldName(Path(folder), name)


def read_record(folder: Place, name: str) -> NameRecord | None:
    """What is known of the name of a stream; None: nothing."""
    if is_object_url(folder):
        return object_names.read_record(_bucket(str(ObjectUrl.of(folder))), name)
    return names.read_record(Path(folder), name)


def named_streams(folder: Place) -> list[NamedStream]:
    """Every stream that has a name in a checkpoint folder, by name."""
    if is_object_url(folder):
        return object_names.named_streams(_bucket(str(ObjectUrl.of(folder))))
    return names.named_streams(Path(folder))


def drop_stream(folder: Place, name: str) -> NamedStream:
    """Forget a name, with all checkpoints of its stream; see `names.drop_stream`."""
    if is_object_url(folder):
        return object_names.drop_stream(_bucket(str(ObjectUrl.of(folder))), name)
    return names.drop_stream(Path(folder), name)


def shown(folder: Place) -> str:
    """A checkpoint folder, or what lies in one, as people write it.

    >>> shown(Path("s3://data/streams")), shown(Path("/data"))
    ('s3://data/streams', '/data')
    """
    return str(ObjectUrl.of(folder)) if is_object_url(folder) else os.fspath(folder)


@lru_cache(maxsize=8)
def _bucket(url: str) -> Bucket:
    """Opened once, with the credentials of this process: connections are kept."""
    return Bucket(url)
