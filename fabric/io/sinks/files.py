"""Files as sinks: written aside in a hidden folder beside the target, then renamed.

    out/.name.<job>.staging/part-00000.0.parquet      each task attempt writes its own
    out/.name.<job>.new/part-00000.parquet            publish gathers the listed ones, and
    out/name/part-00000.parquet                       renames the folder (or the single file)

One job: `FileSink`, `publish` and `abandon`. Nobody sees a partial file: a failure at any step
leaves the target as it was and, after `abandon`, nothing beside it. Every step may be repeated.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from fabric.errors import CancelledError, NotFoundError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io.faults import writing
from fabric.io.sinks.encoders import check_options, check_schema, open_encoder
from fabric.io.sinks.protocol import Handle
from fabric.plan.sources import FileTarget

_ENDINGS = {"parquet": "parquet", "csv": "csv", "ipc": "arrow"}


def check_target(target: FileTarget) -> None:
    """Refuse wrong options, a missing parent folder, and a target that exists in mode "error"."""
    check_options(target.format, dict(target.options))
    path = Path(target.path)
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no folder {path.parent} to write {path.name} in; create it")
    if not os.access(path.parent, os.W_OK):
        raise StorageError(f"the folder {path.parent} may not be written by this user")
    if target.mode == "error" and _is_taken(path, target.single):
        raise PlanError(f'{path} exists already; write with mode="overwrite", or elsewhere')
    if target.single and path.is_dir():
        raise PlanError(f"{path} is a folder; give the name of a file in it")
    if not target.single and path.is_file():
        raise PlanError(f"{path} is a file, not a folder of parts; remove it first")


def open_sink(target: FileTarget, schema: pa.Schema, task: TaskId, n_tasks: int) -> FileSink:
    """One task's part file, aside."""
    check_target(target)
    check_schema(target.format, schema, target.path)
    if target.single and n_tasks != 1:
        raise PlanError(f"the single file {target.path} needs one task, got {n_tasks}")
    return FileSink(target, schema, task)


class FileSink:
    """Writes one part; see `SinkWriter`."""

    def __init__(self, target: FileTarget, schema: pa.Schema, task: TaskId) -> None:
        ending = _ENDINGS[target.format]
        self._target, self._part = target, f"part-{task.task:05d}.{ending}"
        self._staging = _aside(target.path, task.job, task.stage, "staging")
        self._path = self._staging / f"{self._part}.{task.attempt}"
        self._task, self._rows, self._abandoned = task, 0, False
        with self._guard():
            self._staging.mkdir(exist_ok=True)
            self._file = pa.OSFile(str(self._path), "wb")
            self._encoder = open_encoder(target.format, self._file, schema, dict(target.options))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; on an error nothing is left on disk."""
        with self._guard():
            self._encoder.write(batch)
        self._rows += batch.num_rows

    def prepare(self) -> bytes:
        """Finish the file and force it to the disk."""
        with self._guard():
            self._encoder.close()
            self._file.close()
            with self._path.open("rb") as file:
                os.fsync(file.fileno())
        facts = {
            "path": self._target.path, "single": self._target.single, "mode": self._target.mode,
            "staging": str(self._staging), "staged": str(self._path), "part": self._part,
            "rows": self._rows,
        }  # fmt: skip
        return Handle("file", facts).encode()

    def abandon(self) -> None:
        """Remove the part, and the staging folder once it is empty."""
        self._abandoned = True
        _remove(self._path)

    def _guard(self) -> _Guard:
        if self._abandoned:
            raise CancelledError(f"writing {self._target.path} was abandoned")
        return _Guard(self)

    def discard(self) -> None:
        """After a failed write: close what can be closed, remove the rest."""
        # Closing flushes and may fail as the write did; the first error is the one to tell.
        with suppress(OSError, pa.ArrowException, ValueError, AttributeError):
            self._file.close()
        self.abandon()


class _Guard:
    """`writing` for one sink: an error also removes the part."""

    def __init__(self, sink: FileSink) -> None:
        self._sink, self._inner = sink, writing(sink._target.path)

    def __enter__(self) -> None:
        self._inner.__enter__()

    def __exit__(self, *error: object) -> bool | None:
        if error[0] is not None:
            self._sink.discard()
        return self._inner.__exit__(*error)  # type: ignore[arg-type]


def publish(handles: Sequence[Handle]) -> None:
    """Rename all parts of one target into place."""
    facts = [handle.facts for handle in handles]
    path = Path(facts[0]["path"])
    with writing(str(path)):
        if facts[0]["single"]:
            _publish_file(Path(facts[0]["staged"]), path, facts[0]["mode"])
        else:
            _publish_folder(facts, path)
        shutil.rmtree(facts[0]["staging"], ignore_errors=True)


def abandon(handles: Sequence[Handle]) -> None:
    """Remove whatever the stage of these handles staged; what is published stays."""
    for handle in handles:
        shutil.rmtree(_new_folder(handle.facts), ignore_errors=True)
        shutil.rmtree(handle.facts["staging"], ignore_errors=True)


def drop(handles: Sequence[Handle]) -> None:
    """Remove what these attempts staged, and nothing of any other."""
    for handle in handles:
        _remove(Path(handle.facts["staged"]))


def discard(target: FileTarget, job: str, stage: int) -> None:
    """Remove whatever the tasks of a stage staged, listed in handles or not."""
    shutil.rmtree(_aside(target.path, job, stage, "staging"), ignore_errors=True)
    shutil.rmtree(_aside(target.path, job, stage, "new"), ignore_errors=True)


def _publish_file(staged: Path, path: Path, mode: str) -> None:
    if not staged.exists():
        if path.exists():
            return  # an earlier publish did it
        raise StorageError(f"the written rows of {path} are gone from {staged.parent}")
    if mode == "overwrite":
        staged.replace(path)
        return
    try:
        os.link(staged, path)
    except FileExistsError:
        if not path.samefile(staged):
            raise PlanError(f"{path} was made by somebody else meanwhile; it is kept") from None
    staged.unlink()


def _publish_folder(facts: Sequence[dict[str, str]], path: Path) -> None:
    new = _new_folder(facts[0])
    staged = [fact for fact in facts if Path(fact["staged"]).exists()]
    if staged:
        new.mkdir(exist_ok=True)
    for fact in staged:
        Path(fact["staged"]).rename(new / fact["part"])
    if not new.exists():
        if all((path / fact["part"]).exists() for fact in facts):
            return  # an earlier publish did it
        raise StorageError(f"the written rows of {path} are gone from {facts[0]['staging']}")
    if _is_taken(path, single=False):
        if facts[0]["mode"] != "overwrite":
            raise PlanError(f"{path} was made by somebody else meanwhile; it is kept")
        old = Path(facts[0]["staging"]).with_suffix(".old")
        path.rename(old)
        new.rename(path)
        shutil.rmtree(old)
        return
    new.rename(path)


def _new_folder(fact: dict[str, str]) -> Path:
    return Path(fact["staging"]).with_suffix(".new")


def _is_taken(path: Path, single: bool) -> bool:
    if path.is_dir() and not single:
        return any(path.iterdir())
    return path.exists()


def _aside(path: str, job: str, stage: int, what: str) -> Path:
    target = Path(path)
    return target.parent / f".{target.name}.{job}-{stage}.{what}"


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    # Other tasks may still have files in there; the last one removes the folder.
    with suppress(OSError):
        path.parent.rmdir()
