"""Which files a path, a folder or a pattern names.

One job: `listed`, in an order that only names decide. Folders are walked down to the last one.
Names that begin with a dot or underscore are passed over there, as Spark's ``_SUCCESS`` is, but
for folders of a column (``_a=1``); a path that names a file is that file, whatever it is called.
In an object store a folder is what lies below a prefix; all else is the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from itertools import takewhile
from pathlib import Path

from fabric.errors import NotFoundError, PlanError, StorageError
from fabric.io import local_files, object_files, places
from fabric.object_urls import is_object_url, split_url
from fabric.plan.places import Settings
from fabric.values import scheme_of, unreachable

_PACKED = ("", *local_files.PACKINGS)
_LINES = tuple(f"{text}{packed}" for text in (".ndjson", ".jsonl", ".json") for packed in _PACKED)
ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": tuple(f".csv{packed}" for packed in _PACKED),
    "ipc": (".arrow", ".ipc", ".feather"),
    "json": _LINES,
    "ndjson": _LINES,
}
"""By format: what is read of a folder, in capitals or not."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Listed:
    """Absolute paths or URLs, and for each the folder that was asked for; "" for a file itself.

    What lies between the folder and the file may be columns, see `hive`.
    """

    paths: tuple[str, ...]
    roots: tuple[str, ...]


def listed(format: str, given: list[str | Path], store: Settings = ()) -> Listed:
    """The files that `given` (files, folders, patterns) name, in order; of objects their `store` is
    asked with these options.

    Raises
    ------
    NotFoundError
        Something is not there, or a folder holds no file of the format.
    PlanError
        Nothing is given, or the URL of something else than objects.
    StorageError
        A store can't be reached, or refuses.
    """
    found = [pair for path in given for pair in _listed_one(format, path, store)]
    if not found:
        raise PlanError(f"read_{format} needs at least one path")
    paths, roots = zip(*found, strict=True)
    return Listed(paths, roots)


def check_local(
    path: str | os.PathLike[str], verb: str, *, writes: bool = False, stores: bool = False
) -> None:
    """Raise `PlanError` for a URL, also for one that was made a `Path` (which has one slash less).

    >>> check_local("/data/x.csv", "read_csv")
    >>> check_local("hdfs://host/x.csv", "read_csv")
    Traceback (most recent call last):
    fabric.errors.PlanError: read_csv can't reach hdfs://host/x.csv: ...
    """
    text = str(path)
    if not (scheme := scheme_of(path)):
        return
    if scheme == "file":
        way = f"write the path: {verb}({'/' + text.partition(':')[2].lstrip('/')!r})"
    elif writes:
        way = (
            "write to a folder that all agents see, and copy the files from there, or mount the "
            "store there"
        )
    elif scheme in ("http", "https"):
        way = "download it first: urllib.request.urlretrieve(url, path)"
    else:
        way = "copy it to a folder that all agents see, or mount the store there"
    raise PlanError(unreachable(path, verb, way, stores=stores))


def local_path(
    path: str | os.PathLike[str], verb: str, *, writes: bool = False, stores: bool = False
) -> Path:
    """The absolute path that the argument of `verb` means; `PlanError` for what can be none.

    `stores`: what the verb's URLs of objects mean is looked at elsewhere.
    """
    if not isinstance(path, str | os.PathLike):
        raise PlanError(f"{verb} needs a path, got {path!r}; give it a text or a pathlib.Path")
    text = os.fspath(path)
    check_local(text, verb, writes=writes, stores=stores)
    try:
        full = Path(text).expanduser().absolute()
        os.lstat(full)
    except (OSError, RuntimeError, ValueError) as error:  # of the home of nobody, of a null byte
        if isinstance(error, OSError) and error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            return full
        why = error.strerror if isinstance(error, OSError) else str(error)
        shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
        raise PlanError(
            f"{verb} can't use the path {shown} of {len(text):,} characters: {why}; give the path "
            "of a file or folder"
        ) from error
    return full


def _listed_one(format: str, given: str | Path, store: Settings) -> list[tuple[str, str]]:
    if isinstance(given, str | os.PathLike) and is_object_url(given):
        return _listed_objects(format, given, store)
    path = local_path(given, f"read_{format}", stores=True)
    if path.is_file():
        return [(str(path), "")]
    if path.is_dir():
        files = sorted(_walked(str(path), ENDINGS[format]))
        if not files:
            endings = ", ".join(f"*{ending}" for ending in ENDINGS[format])
            raise NotFoundError(f"the folder {path} holds no {endings}; is it the right one?")
        return [(file, str(path)) for file in files]
    if path.exists():
        local_files.facts(str(path))  # tells what it is
    if not has_magic(str(path)):
        raise NotFoundError(f"there is no file or folder {path} (looked in {Path.cwd()})")
    root = _root(path)
    files = sorted(_matches(str(path), root, ENDINGS[format]))
    if not files:
        raise NotFoundError(f"no file matches {path} (looked in {Path.cwd()})")
    return [(file, root) for file in files]


def _root(pattern: Path) -> str:
    """The folders of a pattern up to the first that is one."""
    return str(Path(*_plain(pattern.parts)))


def _plain(parts: Sequence[str]) -> list[str]:
    return list(takewhile(lambda part: not has_magic(part), parts[:-1]))


def _listed_objects(
    format: str, given: str | os.PathLike[str], store: Settings
) -> list[tuple[str, str]]:
    (bucket, key), root = object_files.place_of(given, store), split_url(given)[0]
    url, endings = f"{root}/{key}".rstrip("/"), ENDINGS[format]
    places.check_input(url)
    with suppress(NotFoundError):
        if key:
            object_files.look_at([url], store)
            return [(url, "")]
    below = sorted(each for each in bucket.sizes(key) if each != key)
    if below:
        begin = len(key) + 1 if key else 0
        files = [each for each in below if _is_seen(each[begin:], endings)]
        if not files:
            listed = ", ".join(f"*{ending}" for ending in endings)
            raise NotFoundError(f"{url} holds no {listed}; is it the right prefix?")
        return [(f"{root}/{each}", url) for each in files]
    if not has_magic(key):
        raise NotFoundError(f"there is no object {url}, and none below it")
    prefix = "/".join(_plain(key.split("/")))
    files = [each for each in sorted(bucket.sizes(prefix)) if _matches_key(key, each, endings)]
    if not files:
        raise NotFoundError(f"no object matches {url}")
    return [(f"{root}/{each}", f"{root}/{prefix}".rstrip("/")) for each in files]


def _is_seen(below: str, endings: tuple[str, ...]) -> bool:
    """Whether a file that lies so in a folder is read with it."""
    return below.lower().endswith(endings) and not any(map(is_hidden, below.split("/")))


def _matches_key(pattern: str, key: str, endings: tuple[str, ...]) -> bool:
    """What `_matches` finds among files, of a key: it or a folder that it is in matches.

    >>> [_matches_key(p, "x/y/a.csv", (".csv",)) for p in ("x/*", "x/*/*.csv", "x/**", "*.csv")]
    [True, True, True, False]
    """
    wanted, names = pattern.split("/"), key.split("/")
    if "**" in wanted:
        hidden = any(map(is_hidden, names[len(_plain(wanted)) :]))
        named = wanted[-1] != "**" or key.lower().endswith(endings)
        return not hidden and named and _match(wanted, names)
    above, below = names[: len(wanted)], names[len(wanted) :]
    return _match(wanted, above) and (not below or _is_seen("/".join(below), endings))


def _match(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """As `glob` has it: what begins with a dot is only matched by what does."""
    if not wanted or not names:
        return not wanted and not names
    if wanted[0] == "**":
        rest = wanted[1:]
        return not rest or any(_match(rest, names[n:]) for n in range(len(names)))
    if names[0].startswith(".") and not wanted[0].startswith("."):
        return False
    return fnmatchcase(names[0], wanted[0]) and _match(wanted[1:], names[1:])


def _matches(pattern: str, root: str, endings: tuple[str, ...]) -> Iterator[str]:
    """Files that match; of folders that match, the files below them."""
    below = "**" in Path(pattern).parts
    known: set[str] = set()
    for found in glob(pattern, recursive=True):
        if below and (folder := os.path.dirname(found)) not in known:
            _check_above(folder, root)
            known.add(folder)
        if below and any(is_hidden(part) for part in Path(found).relative_to(root).parts):
            continue
        if os.path.isfile(found):
            if not below or Path(pattern).name != "**" or found.lower().endswith(endings):
                yield found
        elif os.path.isdir(found):
            if not below:
                yield from _walked(found, endings)
        elif os.path.exists(found):
            local_files.facts(found)  # tells what it is


def _check_above(folder: str, root: str) -> None:
    """Refuse a folder that is among those above it, up to `root`."""
    above: list[os.stat_result] = []
    for path in (Path(folder), *Path(folder).parents):
        here = os.stat(path)
        if any(os.path.samestat(here, one) for one in above):
            raise _leads_back(folder)
        if str(path) == root:
            return
        above.append(here)


def _leads_back(folder: str) -> PlanError:
    return PlanError(
        f"the folder {folder} is a link to a folder above it, so that its files would be read "
        "again and again; remove the link, or name the files"
    )


def _walked(
    folder: str, endings: tuple[str, ...], above: tuple[os.stat_result, ...] = ()
) -> Iterator[str]:
    try:
        here = os.stat(folder)
        if any(os.path.samestat(here, one) for one in above):
            raise _leads_back(folder)
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    yield from _walked(entry.path, endings, (*above, here))
                elif entry.name.lower().endswith(endings):
                    yield entry.path
    except PermissionError as error:
        raise StorageError(f"the folder {folder} may not be read by this user") from error
    except FileNotFoundError as error:
        raise NotFoundError(
            f"the folder {folder} was removed while its files were listed; read it again"
        ) from error


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is passed over in a folder."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
