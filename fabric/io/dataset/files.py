"""The dataset files of one agent.

One job: `DatasetFiles`, the `DatasetStore` over a folder. Below it:

    <dataset>/<transaction>/<writer>-<attempt>.manifest          there = sealed
    <dataset>/<transaction>/<writer>-<attempt>-<random>/p00003.arrows

Which attempts belong to a version is the coordinator's knowledge and comes with each request. Names
come from outside: each is checked again here, and nothing outside the folder is ever touched.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from fabric.errors import ConfigError, DataError, NotFoundError, PartitionLostError, StorageError
from fabric.flight.descriptor import PutPath
from fabric.flight.ticket import DatasetRequest, Part
from fabric.ids import check_name
from fabric.io.dataset.manifest import Manifest, decode_manifest
from fabric.io.dataset.writing import FileWriter, checksum_file, part_name, storage_error

_REMOVALS_MAX = 10
_DISCARDED_MAX = 4_096
_VERIFIED_MAX = 65_536
_ATTEMPT_FOLDER = re.compile(r"(.+-[0-9]+)-[0-9a-f]{12}")


class DatasetFiles:
    """Reads and writes below `folder`, which is made when it is not there. Thread-safe."""

    def __init__(self, folder: str | os.PathLike[str], agent_id: str = "") -> None:
        self._agent_id = agent_id
        self._lock = threading.Lock()
        self._verified: set[tuple[object, ...]] = set()
        self._unused_since: dict[tuple[str, str], float] = {}
        self._writers: weakref.WeakSet[FileWriter] = weakref.WeakSet()
        self._discarded: dict[tuple[str, str], None] = {}
        try:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            self._root = Path(folder).resolve(strict=True)
        except OSError as error:
            raise StorageError(
                f"can't make the dataset folder {folder}: {error.strerror}"
            ) from error
        self._remove_unsealed()

    def open_write(self, put: PutPath, schema: pa.Schema) -> FileWriter:
        """Begin one attempt; an earlier try of the same one stays until this one is sealed."""
        folder = self._inside(put.name, put.transaction)
        check_name(put.writer, "writer")
        shown = f"{put.name}/{put.transaction}/{put.writer}#{put.attempt}"
        with self._lock:
            if (put.name, put.transaction) in self._discarded:  # a put that was still on its way
                raise NotFoundError(f"put {shown} comes too late: the transaction was aborted")
            self._unused_since.pop((put.name, put.transaction), None)
            writer = FileWriter(folder, f"{put.writer}-{put.attempt}", schema, shown)
            self._writers.add(writer)
        return writer

    def schema(self, request: DatasetRequest) -> pa.Schema | None:
        """The schema the requested parts were written with; None when there are no parts."""
        for part in request.parts[:1]:
            return self._manifest(request, part).schema
        return None

    def has(self, request: DatasetRequest) -> bool:
        """Whether the partition was sealed here by every part of the request."""
        try:
            manifests = [self._manifest(request, part) for part in request.parts]
        except PartitionLostError:
            return False
        return all(request.partition in manifest.files for manifest in manifests)

    def read(self, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, part by part.

        All of it is checked before the first row: `PartitionLostError` names a part that is not
        here, `DataError` a file that is damaged or cut short.
        """
        found = [(part, self._manifest(request, part)) for part in request.parts]
        files = [self._verified_file(request, part, manifest) for part, manifest in found]
        return _batches([path for path in files if path is not None])

    def discard(self, name: str, transaction: str) -> None:
        """Remove what a transaction left here; it takes no more. Streams that read it go on."""
        folder = self._inside(name, transaction)
        with self._lock:
            self._discarded[name, transaction] = None
            while len(self._discarded) > _DISCARDED_MAX:
                del self._discarded[next(iter(self._discarded))]
            for writer in self._writers:
                if writer.is_open_in(folder):
                    writer.refuse()
            for _ in range(_REMOVALS_MAX):  # a writer may add a file while the folder is emptied
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
            self._unused_since.pop((name, transaction), None)
            if not any(folder.parent.glob("*")):
                shutil.rmtree(folder.parent, ignore_errors=True)

    def drop(self, name: str, transactions: Collection[str]) -> None:
        """Remove the parts a dropped dataset consisted of; a later one of this name stays."""
        for transaction in transactions:
            self.discard(name, transaction)

    def sweep(self, live: Mapping[str, Collection[str]], now_s: float, age_s: float) -> list[str]:
        """Remove transactions that no dataset in `live` (name: transactions) used for `age_s`.

        Call it now and then: a transaction's age counts from the first sweep that saw it unused,
        and anew when somebody writes to it. `now_s` is monotonic. Returns what went.
        """
        here = {(n, t) for n in self._names(self._root) for t in self._names(self._root / n)}
        busy = {key for key in here if key[1] in live.get(key[0], ()) or self._is_written(key)}
        with self._lock:
            for key in busy | (self._unused_since.keys() - here):
                self._unused_since.pop(key, None)
            for key in here - busy:
                self._unused_since.setdefault(key, now_s)
            old = sorted(k for k, since in self._unused_since.items() if now_s - since >= age_s)
        for name, transaction in old:
            self.discard(name, transaction)
        return [f"{name}/{transaction}" for name, transaction in old]

    def _is_written(self, key: tuple[str, str]) -> bool:
        folder = self._inside(*key)
        with self._lock:
            return any(writer.is_open_in(folder) for writer in self._writers)

    def _inside(self, name: str, transaction: str) -> Path:
        """The folder of a transaction, certainly below ours."""
        try:
            path = self._root / check_name(name, "dataset name")
            path /= check_name(transaction, "transaction")
        except ConfigError as error:
            raise NotFoundError(error.message) from error
        if not path.resolve().is_relative_to(self._root):
            raise NotFoundError(f"dataset {name!r} does not lie in this agent's folder")
        return path

    def _manifest_path(self, name: str, part: Part) -> Path:
        check_name(part.writer, "writer")
        return self._inside(name, part.transaction) / f"{part.writer}-{part.attempt}.manifest"

    def _manifest(self, request: DatasetRequest, part: Part) -> Manifest:
        try:
            return decode_manifest(self._manifest_path(request.name, part).read_bytes())
        except FileNotFoundError as error:
            raise PartitionLostError(
                f"{_shown(request, part)} is not on this agent", agent=self._agent_id
            ) from error
        except DataError as error:
            raise DataError(
                f"{_shown(request, part)}: {error.message}", agent=self._agent_id
            ) from error
        except OSError as error:
            raise storage_error(error, f"can't read {_shown(request, part)}") from error

    def _verified_file(
        self, request: DatasetRequest, part: Part, manifest: Manifest
    ) -> Path | None:
        """The file's path, once its bytes are known to be those written; None for no rows."""
        expected = manifest.files.get(request.partition)
        if expected is None:
            raise PartitionLostError(
                f"{_shown(request, part)} does not belong to this agent", agent=self._agent_id
            )
        if not expected.rows:
            return None
        path = self._inside(request.name, part.transaction) / manifest.folder
        path /= part_name(request.partition)
        try:
            status = path.stat()
            key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
            if key in self._verified:
                return path
            n_bytes, crc32 = checksum_file(path)
        except FileNotFoundError as error:
            raise PartitionLostError(
                f"a file of {_shown(request, part)} is gone", agent=self._agent_id
            ) from error
        except OSError as error:
            raise storage_error(error, f"can't read {_shown(request, part)}") from error
        if (n_bytes, crc32) != (expected.n_bytes, expected.crc32):
            how = "cut short" if n_bytes < expected.n_bytes else "damaged"
            raise DataError(
                f"a file of {_shown(request, part)} is {how}: it has {n_bytes} bytes of "
                f"{expected.n_bytes}, or its checksum differs; write the dataset again",
                agent=self._agent_id,
            )
        if len(self._verified) >= _VERIFIED_MAX:
            self._verified.clear()
        self._verified.add(key)
        return path

    def _remove_unsealed(self) -> None:
        """After a crash: attempts that no manifest names were never acknowledged."""
        for name in self._names(self._root):
            for transaction in self._names(self._root / name):
                folder = self._root / name / transaction
                sealed = {_folder_of(path) for path in folder.glob("*.manifest")}
                for path in folder.iterdir():
                    unsealed = _ATTEMPT_FOLDER.fullmatch(path.name) and path.name not in sealed
                    if unsealed and None not in sealed:
                        shutil.rmtree(path, ignore_errors=True)
                    elif path.suffix == ".aside":
                        path.unlink(missing_ok=True)

    def _names(self, folder: Path) -> list[str]:
        try:
            return sorted(e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []


def _folder_of(manifest: Path) -> str | None:
    """The folder a manifest names; None when it is damaged, so that nothing near it is removed."""
    try:
        return decode_manifest(manifest.read_bytes()).folder
    except (DataError, OSError):
        return None


def _batches(files: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            yield from stream


def _shown(request: DatasetRequest, part: Part) -> str:
    return (
        f"partition {request.partition} of dataset {request.name!r} from writer "
        f"{part.writer}#{part.attempt} of {part.transaction}"
    )
