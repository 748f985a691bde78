"""A server program: made of jars, on free loopback ports, killed with whoever started it.

One job: `Server`, on which all such servers build: start, stop, kill, pause, resume. The
program runs under a keeper (keeper.py), so it ends with this process, however that ends, but not
with the thread that started it. Its folder is removed when it is closed, or by the keeper.

Its jars are of pinned versions, from Maven Central: `jars` fills a folder from a pom.xml, and
`prepared` makes a folder once, by whichever of several processes comes first. Both are below
`store`, which the caller names. Maven checks each file against its published checksum (``-C``) and
keeps what it fetched in its own repository, so only the first start waits for the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from fabric.errors import ConfigError, ExternalError

START_S = 120.0
STOP_S = 60.0
KEEPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")))
_LOW, _HIGH = 15_000, 32_000
_GIVEN: set[int] = set()
"""Nothing may listen there yet: a cluster takes six before its first broker starts."""


class Server(ABC):
    """One process with a folder of its own, `folder`, in which ``log`` is what it says.

    It is started by `start` and may be started again, on the same ports and data. Use it in a
    `with`, or `close` it. Subclasses say how: `command`, `address`, and `answers`, which is asked
    until it is true.
    """

    name = "server"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"fabric-{self.name}-"))
        self._keeper: subprocess.Popen[str] | None = None
        self._pid = 0

    @abstractmethod
    def command(self) -> list[str]:
        """The command line."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where it serves."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves; asked while it starts."""

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._pid, f"{self.name} does not run"
        return self._pid

    @property
    def running(self) -> bool:
        """Whether its process is there; a paused one is."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """Start it (again), and wait until it answers."""
        assert not self.running, f"{self.name} runs already"
        self.start_under([*KEEPER, "--remove", str(self.folder)], wait=wait)

    def start_under(
        self, keeper: list[str], *, stdin: int = subprocess.PIPE, wait: bool = True
    ) -> None:
        """`start` under a keeper with other options, which reads `stdin`."""
        with (self.folder / "log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [*keeper, "--", *self.command()],
                cwd=self.folder, stdin=stdin, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True, text=True,
            )  # fmt: skip
        assert self._keeper.stdout is not None
        self._pid = int(self._keeper.stdout.readline())
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until it answers; `ExternalError` with its log when it ends instead."""
        deadline_s = time.monotonic() + START_S
        while not self.answers():
            if not self.running or time.monotonic() > deadline_s:
                raise ExternalError(f"{self.name} did not start: {self.log()[-3000:]}")
            time.sleep(0.02)

    def log(self) -> str:
        """What it said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Ask it to end, and wait for that; nothing when it does not run."""
        self.resume()
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Have it hang (SIGSTOP): connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`; nothing when it does not run."""
        with suppress(ProcessLookupError):
            if self.running:
                os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """End it and remove its folder; may be called again."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        """Leave it to its keeper: it is no longer this object's to end."""
        if (keeper := self._keeper) is not None and keeper.stdout is not None:
            keeper.stdout.close()
            keeper.returncode = 0  # it is not waited for
        self._keeper = None

    def _end(self, number: int) -> None:
        if (keeper := self._keeper) is None:
            return
        with suppress(ProcessLookupError):
            if keeper.poll() is None:
                os.kill(self._pid, number)
        try:
            keeper.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.kill(self._pid, signal.SIGKILL)
            keeper.wait(STOP_S)
        for pipe in (keeper.stdin, keeper.stdout):
            if pipe is not None:
                pipe.close()
        self._keeper = None

    def __enter__(self) -> Self:
        try:
            if not self.running:
                self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def free_port() -> int:
    """A loopback port on which nothing listens, never twice the same.

    It is below those that the system gives to connections, so it is still free a second later, and
    after a restart.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(_LOW, _HIGH)
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _GIVEN.add(port)
            return port
    raise ConfigError(f"no free port was found between {_LOW} and {_HIGH}")


def listens(port: int) -> bool:
    """Whether something accepts connections at a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


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
