"""Which job a folder of a stream's files belongs to.

    out/.name.writer -> job-1     a link to nowhere that says whose `out/name` is, while it runs

One job: `check_unused`, before a job is submitted, `claim`, when its tasks begin, and `release`, at
its end. A job that does not append writes a folder that nothing of anybody else lies in: the same
program run again would put all of its rows there twice. The link is made in one step of the file
system, so of two jobs that begin at once one gets the folder. It stays when a program is killed.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.files.folders import is_hidden
from fabric.io.sinks.append import check_appended
from fabric.io.sinks.encoders import ENDINGS
from fabric.plan.targets import StreamFileTarget

OURS = re.compile(r"(?P<job>[^.]+)\.\d+-\d{5}-\d{6,}-.*")
ASIDE = re.compile(r"(?P<job>[^.]+)-\d+\.stream")
WAYS = (
    "a stream writes a folder of its own, so that no row is there twice when its program is run "
    "again. Write to another folder, one that is empty or not there yet; or use "
    'mode="append" to add rows to what is there'
)


def check_unused(target: StreamFileTarget, job: str = "") -> None:
    """Refuse a folder that holds files, or that is written, unless by `job` or to append to.

    Raises
    ------
    PlanError
        It names the folder, what lies there, the job that wrote it, and what can be done.
    """
    path = _folder(target)
    if target.mode == "append":
        return
    seen = _seen_in(path)
    wrote = [found["job"] if (found := OURS.fullmatch(name.name)) else "" for name in seen]
    if job and job in wrote:  # restarted once it had ended; others appended meanwhile
        return
    for writer in _writers(path):
        if writer != job:
            raise _taken(path, writer, "is written")
    if seen:
        raise _taken(path, wrote[0], f"holds {seen[0]}" + (", written" if wrote[0] else ""))


def check_alike(target: StreamFileTarget, schema: pa.Schema) -> None:
    """Refuse to append to files of streams that have another format, or files of other columns.

    Raises
    ------
    PlanError
        It names a file in the folder, and what is expected.
    """
    path, ending = _folder(target), ENDINGS[target.format]
    ours = [name for name in _seen_in(path) if OURS.fullmatch(name.name)]
    if target.mode != "append":
        return
    for name in ours:
        if name.suffix != f".{ending}":
            raise PlanError(
                f"the folder {path} holds {name}, and this stream would add {target.format} files "
                "to it; write to another folder, or give the same format="
            )
    check_appended(target, schema)


def claim(target: StreamFileTarget, job: str) -> None:
    """Have the folder belong to `job` until `release`; again is fine.

    Raises
    ------
    PlanError
        It is another job's, or holds files of others, see `check_unused`.
    """
    if target.mode == "append":
        return
    path = _folder(target)
    while (writer := _claimed_by(path)) is None:
        with suppress(FileExistsError):
            _link(path).symlink_to(job)
            try:
                check_unused(target, job)
            except PlanError:
                release(target, job)
                raise
            return
    if writer != job:
        raise _taken(path, writer, "is written")


def release(target: StreamFileTarget, job: str) -> None:
    """Nobody writes the folder any more; what lies there says by itself who did."""
    path = _folder(target)
    if _claimed_by(path) == job:
        _link(path).unlink(missing_ok=True)


def _folder(target: StreamFileTarget) -> Path:
    """The folder itself, by whatever path it is named."""
    return Path(target.path).resolve()


def _link(path: Path) -> Path:
    return path.with_name(f".{path.name}.writer")


def _claimed_by(path: Path) -> str | None:
    """The job that the folder belongs to; None: it is nobody's."""
    try:
        return os.readlink(_link(path))
    except FileNotFoundError:
        return None
    except OSError:  # a file that somebody called so
        return ""


def _writers(path: Path) -> list[str]:
    """The jobs that write into the folder, or did when they were killed."""
    claimed_by = _claimed_by(path)
    return [*([] if claimed_by is None else [claimed_by]), *_asides(path)]


def _asides(path: Path) -> dict[str, Path]:
    """Where jobs write aside what is to be seen in the folder, by their ids."""
    begin, found = f".{path.name}.", {}
    for name in _names_in(path.parent):
        if name.startswith(begin) and (aside := ASIDE.fullmatch(name.removeprefix(begin))):
            found[aside["job"]] = path.with_name(name)
    return found


def _seen_in(folder: Path) -> list[Path]:
    """The files that readers of the folder see, below it, too; relative to it."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        here = Path(root).relative_to(folder)
        found += [here / name for name in names if not is_hidden(name)]
    return sorted(found)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _is_all_ours(path: Path) -> bool:
    """Whether jobs wrote all that is in the folder, hidden files too, and all that is beside it."""
    link = _link(path)
    if os.path.lexists(link) and not os.path.islink(link):
        return False
    for root, folders, names in os.walk(path):
        if not all(map(OURS.fullmatch, names)):
            return False
        if any("=" not in name or Path(root, name).is_symlink() for name in folders):
            return False  # of a column that the files are partitioned by, or else somebody's
    return True


def _taken(path: Path, writer: str, how: str) -> PlanError:
    by = f" by job {writer}" if writer else ""
    ways = WAYS
    if _is_all_ours(path):
        left = [found for found in (path, _link(path)) if os.path.lexists(found)]
        remove = shlex.join(["rm", "-r", *map(str, [*left, *_asides(path).values()])])
        ways += f"; or, when nobody writes it any more, begin anew: {remove}"
    return PlanError(
        f"the folder {path} {how}{by}; {ways}. A stream with a name= goes on where "
        "its program was stopped"
    )
