"""What servers are made of: jars from Maven Central, of pinned versions, kept in a folder.

One job: `prepared`, a folder that is made once, by whichever of several processes comes first, and
`jars`, which fills one from a pom.xml. Both are below `store`, which the caller names. Maven checks
each file against its published checksum (``-C``) and keeps what it fetched in its own repository,
so only the first start waits for the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fabric.errors import ExternalError

_FETCH_S = 900


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone, among all processes that name the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def prepared(store: Path, name: str, make: Callable[[Path], None], *parts: bytes) -> Path:
    """The folder `name`, filled by `make` if it is not there; `parts` are what it depends on."""
    target = store / f"{name}-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:12]}"
    if not target.exists():
        with locked(target.with_suffix(".lock")):
            if not target.exists():
                made = target.with_suffix(".made")
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                make(made)
                made.rename(target)
    return target


def jars(store: Path, pom: Path) -> Path:
    """A folder of the jars that `pom` names, and of those that they need."""

    def fetch(folder: Path) -> None:
        maven("-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")

    return prepared(store, pom.stem, fetch, pom.read_bytes())


def java_path() -> str:
    """Where Java is: an archive of classes holds for one Java alone."""
    return str(Path(shutil.which("java") or "java").resolve())


def maven(*arguments: str) -> None:
    """Run Maven; `ExternalError` with what it said when it fails."""
    run(["mvn", "-B", "-q", "-C", *arguments])


def run(command: Sequence[str], **options: object) -> None:
    """Run a command; `ExternalError` with what it said when it fails."""
    done = subprocess.run(command, check=False, timeout=_FETCH_S, capture_output=True, text=True)
    if done.returncode:
        raise ExternalError(f"{' '.join(command)} said: {(done.stderr + done.stdout)[-3000:]}")
