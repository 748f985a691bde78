"""What tests of several folders share: one live Spark, one PostgreSQL for the whole run."""

from __future__ import annotations

import atexit
import gc
import os
import secrets
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from fabric.clients.dataframe.session import open_sessions
from fabric.coordinator.metadata.postgres.database import Database
from fabric.errors import StorageAwayError
from fabric.telemetry import logs
from tests.support import tiers
from tests.support.java import brief_jvms
from tests.support.postgres import PostgresServer
from tests.support.sampled import SOAK
from tests.support.wait import wait_until
from tests.support.workers import Groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

ROOT = str(Path(__file__).resolve().parent.parent)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": os.devnull,  # no test makes a table
    # else PySpark tells the JVM the place of each of the thousands of calls that make columns
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

LONG_S = 60.0
"""A run of more seconds than these ends with a table of where they went."""

settings.register_profile(  # nothing that takes time is an error: the machine may be busy
    "shared", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared")


def pytest_configure() -> None:
    """Have all that tests start find `tests.support`, from whatever folder, and Ctrl-C mean
    something there: a run in a shell's background (``&`` or ``nohup``) ignores it, and what ignores
    it when it starts would go on ignoring it. Nothing is kept in this user's own state folder, and
    Java is told that it will not run for long."""
    if "FABRIC_HOME" not in os.environ:
        os.environ["FABRIC_HOME"] = home = tempfile.mkdtemp(prefix="fabric-tests-home-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)  # sessions are closed before
    brief_jvms(os.environ)
    path = [found for found in os.environ.get("PYTHONPATH", "").split(os.pathsep) if found]
    if path[:1] != [ROOT]:
        os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *path])
    for key in Path(ROOT, "tests/flight/tls").glob("*.key"):
        key.chmod(0o600)  # git does not keep that, and nothing starts with a key that others read
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """With ``-n``: tests that share servers stay together."""
    return Groups(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked ``soak``, but in `make soak`."""
    long = [] if SOAK else [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay until the end: with them every search of the
    garbage collector takes a second."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a long run, say where its time went."""
    reports = [
        report
        for kind in ("passed", "failed", "error", "skipped", "")
        for report in terminalreporter.stats.get(kind, [])
        if isinstance(report, pytest.TestReport)
    ]
    if sum(report.duration for report in reports) > LONG_S:
        for line in tiers.table(reports):
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """A test closes no session but its own and leaves the process where it was: which tests follow
    it in this process is chance, so they would fail instead of it."""
    sessions, folder = open_sessions(), os.getcwd()
    yield
    closed = [session for session in sessions if session not in open_sessions()]
    assert not closed, f"this test closed sessions that it did not open: {closed}"
    assert os.getcwd() == folder, "this test changed the working folder and did not go back"


@pytest.fixture(autouse=True)
def _units_without_servers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiers.tier_of(request.node.nodeid) == "units":
        tiers.forbid_servers(monkeypatch)


@pytest.fixture(autouse=True)
def _logs_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is run in here says everything, to a stream that is closed after its test."""
    for name in ("stream", "level", "renderers", "bound"):
        monkeypatch.setattr(logs._OUTPUT, name, getattr(logs._OUTPUT, name))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two threads, ANSI as by default, time zone UTC; a task is tried twice.

    Tests that set SQL options do so on ``spark.newSession()``, which shares the rest.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need Fabric too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyspark's modules, at import and start only
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2,2]").appName("tests of fabric")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for the whole run; who stops it starts it again."""
    with PostgresServer() as server:
        yield server


def _has_schema(url: str) -> bool:
    """Make it; PostgreSQL gives up a client that stands still for seconds amid that."""
    try:
        Database(url).migrate()
    except StorageAwayError:
        return False
    return True


@pytest.fixture
def metadata_url(postgres: PostgresServer) -> Iterator[str]:
    """A database of its own with the schema of a coordinator's metadata."""
    name = f"test_{secrets.token_hex(6)}"
    postgres.execute(f"CREATE DATABASE {name}")
    wait_until(lambda: _has_schema(postgres.url(name)))
    yield postgres.url(name)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
