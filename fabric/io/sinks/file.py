"""Files as sinks: written aside in a hidden folder beside the target, then renamed.

    out/.name.<job>.staging/00000.0-0000              each task attempt writes its own
    out/.name.<job>.new/part-00000.parquet            publish gathers the listed ones, and
    out/name/part-00000.parquet                       renames the folder (or the single file)
    out/name/year=2024/part-<job>-00000.parquet       or, in mode "append", moves each into it

One job: `FileSink`, `publish` and `abandon`. Nobody sees a partial file: a failure at any step
leaves the target as it was and, after `abandon`, nothing beside it. Every step may be repeated.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.errors import ConfigError, PlanError, StorageError
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.local_files import PACKINGS, writing
from fabric.io.sinks import object_file, overwrite
from fabric.io.sinks.append import check_appended
from fabric.io.sinks.encoders import check_options, check_schema
from fabric.io.sinks.parts import PartSink, check_partition_by, seen_names
from fabric.io.sinks.protocol import Handle, SinkStart, SinkWriter
from fabric.io.sinks.stream_folders import check_above, synced
from fabric.object_urls import is_object_url
from fabric.plan.targets import FileTarget


def check_target(target: FileTarget, schema: pa.Schema | None = None, **_: object) -> None:
    """Refuse wrong options, a missing parent folder, a target that exists in mode "error", and
    rows with other columns (`schema`) than a folder has that they are appended to."""
    check_options(target.format, target.options)
    places.check_output(target.path)
    path = Path(target.path)
    if target.rows_max < 0:
        raise ConfigError(f"max_rows_per_file can't be negative, got {target.rows_max}")
    if target.single and (target.partition_by or target.rows_max or target.mode == "append"):
        raise PlanError(
            f"{target.path} is one file, and partition_by, max_rows_per_file and "
            f'mode="append" write folders of files; name a folder: '
            f"{_without_ending(target.path)!r}"
        )
    if schema is not None:
        check_partition_by(target.partition_by, schema, f"write_{target.format}")
        check_schema(target.format, schema, target.path)
    if is_object_url(target.path):
        object_file.check_place(target, schema)
        return
    place = _place(target.path)
    check_above(place)
    if target.mode == "error" and _is_taken(path, target.single):
        append = "" if target.single else ' or "append"'
        raise PlanError(f'{path} exists already; write with mode="overwrite"{append}, or elsewhere')
    if target.single and path.is_dir():
        raise PlanError(f"{path} is a folder; give the name of a file in it")
    if not target.single and path.is_file():
        raise PlanError(f"{path} is a file, not a folder of parts; remove it first")
    if target.mode == "overwrite" and not target.force:
        overwrite.check(place, target.path)
    if schema is not None and target.mode == "append" and _is_taken(path, single=False):
        check_appended(target, schema)


def open_sink(
    target: FileTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """One task's part files, aside."""
    check_target(target, schema)
    if target.single and n_tasks != 1:
        raise PlanError(f"the single file {target.path} needs one task, got {n_tasks}")
    if is_object_url(target.path):
        return object_file.ObjectSink(target, schema, task, _packing(target))
    return FileSink(target, schema, task)


class FileSink(PartSink[Path]):
    """Writes the parts of one task; see `SinkWriter`."""

    def __init__(self, target: FileTarget, schema: pa.Schema, task: TaskId) -> None:
        super().__init__(target, schema, task, _packing(target), synced)
        self._target, self._rows = target, 0
        self._staging = _aside(target.path, task.job, task.stage, "staging")
        with self._guard():
            self._staging.mkdir(exist_ok=True)
            if not target.partition_by:
                self._parts.begin()

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`."""
        super().write(batch)
        self._rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Finish the files and force them to the disk."""
        with self._guard():
            self._parts.close()
        ours = self._target.mode == "append"  # else all parts there are of this job
        names = seen_names(self._parts.paths, self._target, self._task, ours=ours)
        parts = [[path.name, seen, path.stat().st_ino] for path, seen in names]
        facts = {
            "path": str(_place(self._target.path)), "single": self._target.single,
            "mode": self._target.mode, "staging": str(self._staging), "parts": parts,
            "rows": self._rows, "force": self._target.force,
        }  # fmt: skip
        return Handle("file", facts).encode()

    def abandon(self) -> None:
        """Remove the parts, and the staging folder once it is empty."""
        super().abandon()
        # Other tasks may still have files in there; the last one removes the folder.
        with suppress(OSError):
            self._staging.rmdir()

    def _place(self, folder: str, number: int) -> Path:
        places.check_unmoved(self._staging)
        self._staging.mkdir(exist_ok=True)  # another attempt may have removed it when empty
        return self._staging / f"{self._task.task:05d}.{self._task.attempt}-{number:04d}"


def publish(handles: Sequence[Handle]) -> None:
    """Rename all parts of one target into place."""
    facts = [handle.facts for handle in handles]
    path, mode = Path(facts[0]["path"]), facts[0]["mode"]
    for place in {path, *(Path(fact["staging"]) for fact in facts)}:
        places.check_unmoved(place)
    with writing(str(path)):
        if facts[0]["single"]:
            ((staged, _),) = _staged(facts)
            _publish_file(staged, path, mode)
        elif mode == "append":
            _publish_into(facts, path)
        else:
            _publish_folder(facts, path)
        shutil.rmtree(facts[0]["staging"], ignore_errors=True)


def abandon(handles: Sequence[Handle]) -> None:
    """Remove whatever the stage of these handles staged; what is published stays."""
    for handle in handles:
        places.check_unmoved(handle.facts["staging"])
        with writing(handle.facts["path"]):
            _remove(Path(handle.facts["path"]), Path(handle.facts["staging"]))


def drop(handles: Sequence[Handle]) -> None:
    """Remove what these attempts staged, and nothing of any other."""
    for handle in handles:
        places.check_unmoved(handle.facts["staging"])
        for staged, _ in _staged([handle.facts]):
            staged.unlink(missing_ok=True)
        with suppress(OSError):
            Path(handle.facts["staging"]).rmdir()


def _staged(facts: Sequence[dict[str, Any]]) -> list[tuple[Path, str]]:
    """Where each part lies aside, and what it is to be called in the target."""
    return [
        (Path(fact["staging"]) / name, part) for fact in facts for name, part, _ in fact["parts"]
    ]


def _holds(folder: Path, facts: Sequence[dict[str, Any]]) -> bool:
    """Whether a folder is the one that the parts were gathered in; others have the same names."""
    parts = [(folder / part, inode) for fact in facts for _, part, inode in fact["parts"]]
    if not parts:
        return folder.is_dir() and not any(folder.iterdir())
    return all(path.exists() and path.stat().st_ino == inode for path, inode in parts)


def discard(target: FileTarget, job: str, stage: int, **_: object) -> None:
    """Remove whatever the tasks of a stage staged, listed in handles or not."""
    if not places.may_write(target.path):
        return  # then no task of it has begun here
    if is_object_url(target.path):
        object_file.discard(target, job, stage)
        return
    with writing(target.path):
        _remove(_place(target.path), _aside(target.path, job, stage, "staging"))


def _remove(path: Path, staging: Path) -> None:
    """Nothing lies beside `path` any more."""
    if path.is_dir() or not path.exists():
        overwrite.tidy(path, staging.with_suffix(".old"), staging.with_suffix(".new"))
    shutil.rmtree(staging, ignore_errors=True)


def _publish_file(staged: Path, path: Path, mode: str) -> None:
    if not staged.exists():
        if path.exists():
            return  # an earlier publish did it
        raise StorageError(f"the written rows of {path} are gone from {staged.parent}")
    if mode == "overwrite":
        staged.replace(path)
        synced(path.parent)
        return
    try:
        os.link(staged, path)
    except FileExistsError:
        if not path.samefile(staged):
            raise PlanError(f"{path} was made by somebody else meanwhile; it is kept") from None
    staged.unlink()


def _publish_into(facts: Sequence[dict[str, Any]], path: Path) -> None:
    """Move all parts to where they are seen; on an error those that were moved go back."""
    path.mkdir(exist_ok=True)
    moved: list[tuple[Path, Path]] = []
    try:
        for staged, part in _staged(facts):
            seen = path / part
            if staged.exists():
                places.check_unmoved(seen.parent)
                seen.parent.mkdir(parents=True, exist_ok=True)
                staged.rename(seen)
                moved.append((staged, seen))
            elif not seen.exists():  # else an earlier publish did it
                raise StorageError(f"the written rows of {path} are gone from {staged.parent}")
    except BaseException:
        for staged, seen in moved:
            seen.rename(staged)
        raise


def _publish_folder(facts: Sequence[dict[str, Any]], path: Path) -> None:
    staging, parts = Path(facts[0]["staging"]), _staged(facts)
    new, old = staging.with_suffix(".new"), staging.with_suffix(".old")
    staged = [(aside, part) for aside, part in parts if aside.exists()]
    if staged or (not parts and staging.exists() and not new.exists()):
        new.mkdir(exist_ok=True)
    for aside, part in staged:
        (new / part).parent.mkdir(parents=True, exist_ok=True)
        aside.rename(new / part)
    if _holds(new, facts):
        if facts[0]["mode"] != "overwrite" and _is_taken(path, single=False):
            raise PlanError(f"{path} was made by somebody else meanwhile; it is kept")
        overwrite.put(new, path, old, force=facts[0]["force"])
    elif not (path.is_dir() and all((path / part).exists() for _, part in parts)):
        raise StorageError(f"the written rows of {path} are gone from {staging}")
    overwrite.tidy(path, old, new)  # an earlier publish may have come so far


def _is_taken(path: Path, single: bool) -> bool:
    if path.is_dir() and not single:
        return any(path.iterdir())
    return path.exists()


def _packing(target: FileTarget) -> str:
    """How a single file of text is compressed: its name says so."""
    is_text = target.single and target.format in ("csv", "json")
    return PACKINGS.get(Path(target.path).suffix, "") if is_text else ""


def _without_ending(path: str) -> str:
    name = Path(path)
    packed = name.suffix if name.suffix in PACKINGS else ""
    return path.removesuffix(packed).removesuffix(Path(name.stem if packed else name).suffix)


def _place(path: str) -> Path:
    """Where links lead: what they name is written, and they stay."""
    return Path(os.path.realpath(path))


def _aside(path: str, job: str, stage: int, what: str) -> Path:
    target = _place(path)
    return target.parent / f".{target.name}.{job}-{stage}.{what}"
