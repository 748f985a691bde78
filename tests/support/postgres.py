"""A real PostgreSQL for tests: on a free loopback port, durable, gone afterwards.

One job: `PostgresServer`. The server is what the machine has installed (15 or newer). It refuses
to run as root, so root starts it as the user ``postgres``. It ends with this process, however that
ends; its folder is removed when it is closed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, Self

import psycopg

from fabric.errors import ConfigError, ExternalError
from fabric.io.postgres.access import parameters_of
from fabric.plan.places import Settings
from tests.support.wait import wait_until

START_S = 60.0
STOP_S = 60.0
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
max_connections = 60
shared_buffers = 32MB
fsync = on
synchronous_commit = on
"""
_USER = "postgres"


def programs() -> Path:
    """The folder of the newest server that is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        raise ExternalError("PostgreSQL is not installed: sudo apt-get install postgresql-15")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


class PostgresServer:
    """A server with the superuser ``postgres``, who needs no password; use it in a `with`.

    `port` 0 is a free one; `settings` are further lines of postgresql.conf.
    """

    def __init__(self, port: int = 0, settings: str = "") -> None:
        self.port = free_port(port)
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="fabric-postgres-"))
        self._as: list[str] = []
        if os.getuid() == 0:
            shutil.chown(self.folder, _USER, _USER)
            self._as = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._init(settings)
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Its address, for a user and a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def settings(self, database: str = "postgres", user: str = "postgres") -> Settings:
        """The same as a plan has it."""
        return parameters_of(self.url(database, user), environ={})[0]

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement as the superuser; its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start it (again) and wait until it answers."""
        command = [*self._as, "setpriv", "--pdeathsig", "SIGQUIT", str(self._programs / "postgres")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-D", str(self.folder / "data"), "-p", str(self.port)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, START_S)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """As ``pg_ctl stop -m``; "immediate" is a crash: it recovers at the next start."""
        if self._process is not None:
            self._process.send_signal(_SIGNALS[mode])
            self._process.wait(STOP_S)
            self._process = None

    def signal_all(self, number: int) -> None:
        """Send a signal to the server's processes, such as SIGSTOP: it hangs, but nothing breaks.

        Backends have sessions of their own, so they are found as its children.
        """
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            os.kill(pid, number)

    def close(self) -> None:
        """Stop it and remove its folder; may be called again."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _init(self, settings: str) -> None:
        data = str(self.folder / "data")
        command = [*self._as, str(self._programs / "initdb"), "-D", data, "-U", _USER]
        made = subprocess.run(
            [*command, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise ExternalError(f"initdb failed: {made.stderr.strip()}")
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(_SETTINGS.format(folder=self.folder) + settings)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ExternalError("PostgreSQL ended: " + (self.folder / "log").read_text()[-2000:])
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def free_port(port: int) -> int:
    """The port, or a free one; `ConfigError` when something listens there already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConfigError(
                f"port {port} is taken ({error.strerror}); a test needs its own"
            ) from error
        return int(probe.getsockname()[1])
