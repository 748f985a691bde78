"""A real object store for tests: versitygw, which speaks S3 over a folder and checks signatures.

``python -m tests.services.versitygw`` starts one and prints its address; Ctrl-C ends it. It is a Go
program, built once from the Go module proxy, whose checksums Go compares. A bucket is a folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from fabric.clients.demo.services.server import Server, free_port, listens, prepared
from fabric.errors import ConfigError
from tests.services import STORE
from tests.services.sharing import shared

VERSION = "v1.8.0"
KEY, SECRET = "fabric-key", "fabric-secret"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_BUILD_S = 3600


class Versitygw(Server):
    """A store for a `with`; its objects stay when it was stopped or killed, until it is closed.

    `secret` may be changed between `stop` and `start`: then the old one is refused.
    """

    name = "versitygw"

    def __init__(self) -> None:
        self._program = str(_program())
        super().__init__()
        self.port, self.secret = free_port(), SECRET
        (self.folder / "buckets").mkdir()

    @property
    def address(self) -> str:
        """Its URL, for ``AWS_ENDPOINT``, and the folder that buckets are made in."""
        return f"http://127.0.0.1:{self.port} {self.folder / 'buckets'}"

    def command(self) -> list[str]:
        """It takes its keys from the environment, which a command line can set as well."""
        keys = [f"ROOT_ACCESS_KEY={KEY}", f"ROOT_SECRET_KEY={self.secret}"]
        where = ["--port", f"127.0.0.1:{self.port}", "-q", "posix", str(self.folder / "buckets")]
        return ["/usr/bin/env", *keys, self._program, *where]

    def answers(self) -> bool:
        """Whether it accepts connections."""
        return listens(self.port)


def environment(url: str, secret: str = SECRET) -> dict[str, str]:
    """The variables by which a program finds a store of this kind."""
    return {
        "AWS_ENDPOINT": url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }  # fmt: skip


def object_store() -> tuple[str, Path]:
    """The store of this run of pytest: its URL, and the folder that buckets are made in."""
    url, folder = shared("versitygw", Versitygw).split(" ", 1)
    return url, Path(folder)


def prepare() -> None:
    """Build it, unless it is there."""
    _program()


def _program() -> Path:
    return prepared(STORE, f"versitygw-{VERSION}", _build) / "versitygw"


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ConfigError("there is no Go to build versitygw with; run `make test`, which sets up")
    subprocess.run(
        [go, "install", "-trimpath", "-ldflags=-s -w", f"{_MODULE}@{VERSION}"],
        env={**os.environ, "GOBIN": str(folder)}, check=True, timeout=_BUILD_S,
    )  # fmt: skip


if __name__ == "__main__":
    with Versitygw() as started:
        sys.stdout.write(f"{started.address}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
