"""The PostgreSQL that tests start: real, durable, alone on its port, gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from fabric.errors import ConfigError
from tests.support.postgres import PostgresServer
from tests.support.wait import wait_until


def test_from_start_to_end_and_nothing_is_left() -> None:
    with PostgresServer() as server:
        assert server.execute("SHOW fsync") == [("on",)]
        assert server.execute("SHOW listen_addresses") == [("127.0.0.1",)]
        (version,) = server.execute("SHOW server_version_num")[0]
        assert int(str(version)) >= 150_000
        server.execute("CREATE TABLE kept (a int)")
        for mode in ("immediate", "fast"):
            server.stop(mode)
            with pytest.raises(psycopg.OperationalError):
                server.execute("SELECT 1")
            server.start()
        assert server.execute("SELECT * FROM kept") == []
        folder = server.folder
        assert folder.exists()
    assert not folder.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_an_occupied_port_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(ConfigError, match=r"port \d+ is taken"),
    ):
        PostgresServer(other.getsockname()[1])


def test_it_ends_with_the_process_that_started_it() -> None:
    code = (
        "from tests.support.postgres import PostgresServer as P\n"
        "s = P()\nprint(s._process.pid, s.folder, flush=True)\ninput()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid, folder = starter.stdout.readline().split()  # type: ignore[union-attr]
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    subprocess.run(["rm", "-rf", folder], check=True)
