"""Which files a path, a folder or a pattern names.

One job: `listed`, in an order that only names decide. Folders are walked down to the last one.
Names that begin with a dot or underscore are passed over there, as Spark's ``_SUCCESS`` is, but
for folders of a column (``_a=1``); a path that names a file is that file, whatever it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from fabric.errors import NotFoundError, PlanError, StorageError

_PACKED = ("", ".gz", ".bz2", ".zst", ".lz4")
_LINES = tuple(f"{text}{packed}" for text in (".ndjson", ".jsonl", ".json") for packed in _PACKED)
ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": tuple(f".csv{packed}" for packed in _PACKED),
    "ipc": (".arrow", ".ipc", ".feather"),
    "json": _LINES,
    "ndjson": _LINES,
}
"""By format: what is read of a folder, in capitals or not."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


@dataclass(frozen=True, slots=True)
class Listed:
    """Absolute paths, and for each the folder that was asked for; "" for a file asked for itself.

    What lies between the folder and the file may be columns, see `hive`.
    """

    paths: tuple[str, ...]
    roots: tuple[str, ...]


def listed(format: str, given: list[str | Path]) -> Listed:
    """The files that `given` (files, folders, patterns) name, in order.

    Raises
    ------
    NotFoundError
        Something is not there, or a folder holds no file of the format.
    PlanError
        Nothing is given, or a URL.
    """
    found = [pair for path in given for pair in _listed_one(format, path)]
    if not found:
        raise PlanError(f"read_{format} needs at least one path")
    paths, roots = zip(*found, strict=True)
    return Listed(paths, roots)


def check_local(path: str | Path, verb: str) -> None:
    """Raise `PlanError` for a URL.

    >>> check_local("/data/x.csv", "read_csv")
    >>> check_local("s3://bucket/x.csv", "read_csv")
    Traceback (most recent call last):
    fabric.errors.PlanError: read_csv can't reach s3://bucket/x.csv: ...
    """
    text = str(path)
    if isinstance(path, str) and _URL.match(text):
        scheme = text.partition(":")[0].lower()
        way = {
            "file": f"write the path: {verb}({'/' + text.partition(':')[2].lstrip('/')!r})",
            "http": "download it first: urllib.request.urlretrieve(url, path)",
            "https": "download it first: urllib.request.urlretrieve(url, path)",
        }.get(scheme, "copy it to a folder that all agents see, or mount the store there")
        raise PlanError(
            f"{verb} can't reach {text}: paths are of local or mounted file systems for now "
            f"(object stores come in a later release, together with savepoints); {way}"
        )


def _listed_one(format: str, given: str | Path) -> list[tuple[str, str]]:
    check_local(given, f"read_{format}")
    path = Path(given).expanduser().absolute()
    if path.is_file():
        return [(str(path), "")]
    if path.is_dir():
        files = sorted(_walked(str(path), ENDINGS[format]))
        if not files:
            endings = ", ".join(f"*{ending}" for ending in ENDINGS[format])
            raise NotFoundError(f"the folder {path} holds no {endings}; is it the right one?")
        return [(file, str(path)) for file in files]
    if not has_magic(str(path)):
        raise NotFoundError(f"there is no file or folder {path} (looked in {Path.cwd()})")
    root = _root(path)
    files = sorted(_matches(str(path), root, ENDINGS[format]))
    if not files:
        raise NotFoundError(f"no file matches {path} (looked in {Path.cwd()})")
    return [(file, root) for file in files]


def _root(pattern: Path) -> str:
    """The folders of a pattern up to the first that is one."""
    plain: list[str] = []
    for part in pattern.parts[:-1]:
        if has_magic(part):
            break
        plain.append(part)
    return str(Path(*plain))


def _matches(pattern: str, root: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Files that match; of folders that match, the files below them."""
    below = "**" in Path(pattern).parts
    for found in glob(pattern, recursive=True):
        if below and any(_is_hidden(part) for part in Path(found).relative_to(root).parts):
            continue
        if os.path.isfile(found):
            if not below or Path(pattern).name != "**" or found.lower().endswith(endings):
                yield found
        elif not below:
            yield from _walked(found, endings)


def _walked(folder: str, endings: tuple[str, ...]) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    yield from _walked(entry.path, endings)
                elif entry.name.lower().endswith(endings):
                    yield entry.path
    except PermissionError as error:
        raise StorageError(f"the folder {folder} may not be read by this user") from error
    except FileNotFoundError as error:
        raise NotFoundError(
            f"the folder {folder} was removed while its files were listed; read it again"
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
