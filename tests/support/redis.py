"""A real Redis for tests: on a free loopback port, in memory alone, gone afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fabric.errors import ExternalError
from tests.support.postgres import free_port
from tests.support.wait import wait_until


class RedisServer:
    """The server that the machine has installed; `settings` are arguments. Use it in a `with`.

    It ends with this process, however that ends.
    """

    def __init__(self, *settings: str) -> None:
        self.port = free_port(0)
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="fabric-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def execute(self, *command: str | int) -> Any:
        """What a command gives."""
        with redis.Redis(port=self.port, protocol=2, retry=Retry(NoBackoff(), 0)) as client:
            return client.execute_command(*command)

    def start(self) -> None:
        """Start it, with nothing in it, and wait until it answers."""
        program = shutil.which("redis-server")
        if program is None:
            raise ExternalError("Redis is not installed: sudo apt-get install redis-server")
        command = ["setpriv", "--pdeathsig", "SIGKILL", program, "--port", str(self.port)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                 "--enable-debug-command", "yes", *self._settings],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        wait_until(self._answers)

    def signal(self, number: int) -> None:
        """Send a signal, such as SIGSTOP: it hangs, but nothing breaks."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it and remove its folder; may be called again."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ExternalError("Redis ended: " + (self._folder / "log").read_text()[-2000:])
        try:
            self.execute("PING")
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        return True
