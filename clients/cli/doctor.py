"""``fabric doctor``: is everything here that Fabric needs?

One job: look, say it in one line each, and end with 1 when something needed is missing. What only
some uses need (Java for Spark, Kafka's client) is a warning.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from fabric.clients.cli.options import Home, home_of
from fabric.clients.cli.processes import port_is_free
from fabric.clients.spark.session import java_major, java_problem
from fabric.config import FabricHome
from fabric.errors import FabricError
from fabric.security.secret import check_folder

Level = Literal["ok", "warn", "bad"]
_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}
_NEEDED = (
    "pyarrow",
    "numpy",
    "datafusion",
    "grpcio",
    "protobuf",
    "rocksdict",
    "typer",
    "rich",
    "fastapi",
    "uvicorn",
    "jinja2",
    "prometheus-client",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw."""

    level: Level
    text: str


def doctor(home: Home = None) -> None:
    """Check versions, kernels, Java, state folder and ports; ends with 1 when one fails."""
    folder = home_of(home)
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        python, packages, distributions, kernels, java, kafka, lambda: state_folder(folder.root),
        ports,
    )  # fmt: skip
    findings = [finding for check in checks for finding in check()]
    for finding in findings:
        mark, color = _MARKS[finding.level]
        typer.echo(f"{typer.style(mark, fg=color)} {finding.text}")
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def python() -> Iterator[Finding]:
    """Python is new enough."""
    good = sys.version_info >= (3, 11)
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok" if good else "bad", text if good else f"{text}; 3.11 or newer is needed")


def packages() -> Iterator[Finding]:
    """Every package Fabric needs is installed; pyarrow of the minor version it was built with."""
    for name in _NEEDED:
        version = version_of(name)
        if version is None:
            yield Finding("bad", f"{name} is missing: pip install flight-fabric")
        elif name == "pyarrow" and (reason := _refusal(version)):
            yield Finding("bad", reason)
        else:
            yield Finding("ok", f"{name} {version}")


def _refusal(version: str) -> str:
    """Why the data plane can't run with this pyarrow; `kernels` says it when nothing is built."""
    try:
        from fabric._cython.abi import refusal
    except ImportError:
        return ""
    return refusal(version)


def distributions() -> Iterator[Finding]:
    """The SSH tool called fabric, which owns the same import name, is not installed too."""
    if (other := version_of("fabric")) is not None:
        yield Finding(
            "bad",
            f"the SSH tool fabric {other} is installed too and writes the same fabric/__init__.py; "
            "keep one: pip uninstall fabric, then pip install --force-reinstall flight-fabric",
        )
    version = version_of("flight-fabric")
    if version is None:
        yield Finding("warn", "flight-fabric is not installed; running from its source folder")
    else:
        yield Finding("ok", f"flight-fabric {version}, and no other package called fabric")


def kernels() -> Iterator[Finding]:
    """The compiled kernels load; which instructions they use here."""
    try:
        from fabric._cython.kernels.cpu import cpu_path
    except ImportError as error:
        yield Finding("bad", f"the native code can't be loaded: {error}")
    else:
        yield Finding("ok", f"kernels use {cpu_path()}")


def java() -> Iterator[Finding]:
    """Java 17 and PySpark, which only Spark needs."""
    spark = version_of("pyspark")
    if spark is None:
        yield Finding("warn", "PySpark is missing; for Spark: pip install 'flight-fabric[spark]'")
    if problem := java_problem():
        yield Finding("warn", problem)
    elif spark:
        yield Finding("ok", f"PySpark {spark} on Java {java_major()}")


def kafka() -> Iterator[Finding]:
    """Kafka's client, which only topics need, and whether the native one runs over it."""
    from fabric.io.kafka.library import client

    if (version := version_of("confluent-kafka")) is None:
        wanted = "pip install 'flight-fabric[kafka]'"
        yield Finding("warn", f"confluent-kafka is missing; for Kafka: {wanted}")
        return
    try:
        found = client()
    except (FabricError, ImportError) as error:
        yield Finding("warn", f"confluent-kafka {version} can't be loaded: {error}")
        return
    with_ = f"confluent-kafka {version} with librdkafka {found.version}"
    yield Finding("warn" if found.reason else "ok", f"{with_}: {found.reason or 'columns, no GIL'}")


def state_folder(home: Path) -> Iterator[Finding]:
    """The state folder can be written and its secret is private."""
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            free = shutil.disk_usage(nearest).free
    except OSError as error:
        yield Finding("bad", f"the state folder {home} can't be written: {error.strerror}")
        return
    yield Finding("ok", f"state folder {home} can be written, {free / (1 << 30):.0f} GiB free")
    if home.exists():
        try:
            check_folder(home)
        except FabricError as error:
            yield Finding("bad", error.message)
    secret = FabricHome(home).secret
    if secret.exists() and secret.stat().st_mode & 0o077:
        yield Finding("bad", f"others can read {secret}: chmod 600 {secret}")


def ports() -> Iterator[Finding]:
    """The coordinator's ports are free, or a fabric is up."""
    for number, option in ((6123, "--port"), (8081, "--rest-port"), (9090, "--metrics-port")):
        if port_is_free("127.0.0.1", number):
            yield Finding("ok", f"port {number} is free")
        else:
            text = f"port {number} is taken: a fabric is up, or use fabric up {option}"
            yield Finding("warn", text)


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
