"""Programs of other languages that read from a fabric: built once, kept in a folder of the caller.

One job: building. Arrow's Go integration client comes from its module at a pinned version, with the
hashes Go's checksum database knows, and our own Go program those of its go.sum; C++ is compiled
against the pyarrow wheel; Java gets the jars that a pom.xml names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.support.java import BRIEF

GO_MODULE = "github.com/apache/arrow-go/v18"
GO_VERSION = "v18.7.0"
GO_CLIENT = "arrow-flight-integration-client"
BUILD_S = 900.0
"""The longest a build may take: it downloads on a fresh machine."""


def go_client(folder: Path) -> Path:
    """Arrow's Go integration client as a program; Go 1.25 or newer is needed."""
    target = folder / f"{GO_CLIENT}-{GO_VERSION}"
    if not target.exists():
        package = f"{GO_MODULE}/arrow/internal/flight_integration/cmd/{GO_CLIENT}@{GO_VERSION}"
        with tempfile.TemporaryDirectory(dir=_made(folder)) as made:
            run(
                ["go", "install", "-trimpath", "-ldflags=-s -w", package],
                {"GOBIN": made, "CGO_ENABLED": "0"},
            )
            (Path(made) / GO_CLIENT).rename(target)
    return target


def go_program(source: Path, folder: Path) -> Path:
    """`source` compiled; its modules are those of the go.mod beside it, as go.sum knows them."""
    sums = source.with_name("go.sum").read_text()
    target = folder / f"{source.stem}-{digest(source, sums)}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=_made(folder)) as made:
            run(
                ["go", "build", "-C", str(source.parent), "-mod=readonly", "-trimpath",
                 "-ldflags=-s -w", "-o", f"{made}/program", source.name],
                {"CGO_ENABLED": "0", "GOFLAGS": ""},
            )  # fmt: skip
            (Path(made) / "program").rename(target)
    return target


def cpp_program(source: Path, folder: Path) -> Path:
    """`source` compiled and linked with the libraries of the pyarrow wheel."""
    target = folder / f"{source.stem}-{digest(source, pa.__version__)}"
    if not target.exists():
        (libraries,) = pa.get_library_dirs()[:1]
        names = [f"-l:lib{name}.so.{pa.cpp_build_info.so_version}" for name in _LIBRARIES]
        with tempfile.TemporaryDirectory(dir=_made(folder)) as made:
            run(
                ["g++", "-std=c++20", "-O1", f"-I{pa.get_include()}", str(source), f"-L{libraries}",
                 *names, f"-Wl,-rpath,{libraries}", "-o", f"{made}/program"]
            )  # fmt: skip
            (Path(made) / "program").rename(target)
    return target


def java_command(source: Path, folder: Path) -> list[str]:
    """How to run one file of Java; the jars are those that the pom.xml beside it names."""
    jars = folder / f"jars-{digest(source.with_name('pom.xml'))}"
    if not jars.exists():
        with tempfile.TemporaryDirectory(dir=_made(folder)) as made:
            run(
                ["mvn", "-B", "-q", "-f", str(source.with_name("pom.xml")),
                 "dependency:copy-dependencies", f"-DoutputDirectory={made}/jars"]
            )  # fmt: skip
            (Path(made) / "jars").rename(jars)
    opened = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    return ["java", *BRIEF, "-Xmx256m", opened, "-cp", f"{jars}/*", str(source)]


_LIBRARIES = ("arrow", "arrow_flight")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(source: Path, *others: str) -> str:
    """A name for what is made of `source` (and `others`): another one when it changes."""
    return hashlib.sha256(source.read_bytes() + "".join(others).encode()).hexdigest()[:12]


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; what it said is in the error when it fails."""
    done = subprocess.run(
        command, check=False, env={**os.environ, **(environment or {})}, timeout=BUILD_S,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)} said: {(done.stderr + done.stdout)[-3000:]}"
