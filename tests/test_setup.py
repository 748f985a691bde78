"""`.ci/setup` and imports say what to do where something is missing: one sentence each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from fabric._cython import refusal

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
LOCKS = ("build", "dev", "go", "run")
# What stands in for programs of the machine: each prints what the real one would.
GOOD = {
    "g++": "echo 12",
    "java": """echo 'openjdk version "17.0.11" 2024-04-16' >&2""",
    "id": "echo 1000",
    "df": "echo; echo disk 9000 1 8000 1% /",
    "python3": f'exec "{sys.executable}" "$@"',
}


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has all packages already, in a folder with a space in its name."""
    folder = tmp_path / "a checkout"
    (folder / ".ci").mkdir(parents=True)
    for name in ("setup", "simdjson", "tonbo"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci" / name)
    fetched = folder / "build" / "simdjson"
    fetched.mkdir(parents=True)
    (fetched / "simdjson.cpp").write_text("")
    shutil.copy(ROOT / "requirements" / "simdjson.lock", fetched / "lock")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    program(folder / ".venv" / "bin" / "python", GOOD["python3"])
    for name in LOCKS:
        shutil.copy(ROOT / "requirements" / f"{name}.lock", folder / ".venv")
    return folder


def setup(
    checkout: Path,
    programs: Mapping[str, str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    user: int | None = None,
) -> str:
    """What it says as it gives up."""
    folder = checkout.parent / "programs"
    for name, text in {**GOOD, **(programs or {})}.items():
        program(folder / name, text)
    done = subprocess.run(
        [checkout / ".ci" / "setup", "run"],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **(environ or {})},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        user=user,
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_compiler_that_is_too_old_is_named(checkout: Path) -> None:
    said = setup(checkout, {"g++": "echo 9"})
    assert "missing: g++ 11 or newer (9 is here)" in said
    assert "please install first: sudo apt-get install g++" in said


def test_no_compiler_and_no_java(checkout: Path) -> None:
    said = setup(checkout, {"g++": "exit 127", "java": "exit 127"})
    assert "missing: g++ 11 or newer (none is here)" in said
    assert "missing: Java 17 or newer (none is here)" in said
    assert "please install first: sudo apt-get install g++ openjdk-17-jre-headless" in said


def test_a_java_home_that_is_too_old_is_named(checkout: Path, tmp_path: Path) -> None:
    home = tmp_path / "jdk-11"
    program(home / "bin" / "java", """echo 'openjdk version "11.0.2"' >&2""")
    said = setup(checkout, environ={"JAVA_HOME": str(home)})
    assert f"Java 17 or newer (11 is here, from JAVA_HOME={home})" in said


def test_an_older_python_is_named(checkout: Path) -> None:
    older = "case $1 in --version) echo Python 3.9.2;; *) exit 1;; esac"
    said = setup(checkout, {"python3": older})
    assert "Python 3.11 or newer (Python 3.9.2 is here)" in said


def test_a_mirror_that_does_not_answer(checkout: Path) -> None:
    said = setup(checkout, {"id": "echo 0", "g++": "echo 9", "apt-get": "exit 100"})
    assert "apt could not install g++ (gave up after" in said
    assert "is its mirror slow or out of reach? Try again, or install them by hand" in said


def test_what_apt_has_may_be_too_old(checkout: Path) -> None:
    said = setup(checkout, {"id": "echo 0", "g++": "echo 9", "apt-get": "exit 0"})
    assert "still missing: g++ 11 or newer (9 is here)" in said
    assert "apt has nothing newer: install it from elsewhere and put it first on PATH" in said


def test_a_full_disk_is_told_before_anything_is_fetched(checkout: Path) -> None:
    said = setup(checkout, {"df": "echo; echo disk 9000 1 120 99% /"})
    assert "120 MB are free on this disk, setting up needs 3000 MB" in said


def test_a_checkout_that_can_not_be_written_to(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as reachable:  # by others, as pytest's folders are not
        Path(reachable).chmod(0o755)
        copy = Path(shutil.copytree(checkout, Path(reachable) / "checkout"))
        copy.chmod(0o555)
        said = setup(copy, user=NOBODY if os.getuid() == 0 else None)
        copy.chmod(0o755)
    assert "this checkout can't be written to; copy it to a folder of yours" in said


def test_an_older_environment_whose_python_is_gone(checkout: Path) -> None:
    program(checkout / ".venv" / "bin" / "python", "exit 127")
    assert "the .venv here has no Python 3.11 or newer that runs" in setup(checkout)
    assert "run `make clean` and try again" in setup(checkout)


def test_an_environment_of_another_folder(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "activate").write_text("VIRTUAL_ENV=/elsewhere/.venv\n")
    assert "the .venv here was made in another folder" in setup(checkout)


def test_packages_that_can_not_be_fetched(checkout: Path) -> None:
    (checkout / ".venv" / "build.lock").unlink()
    (checkout / ".venv" / "dev.lock").unlink()
    program(checkout / ".venv" / "bin" / "python", 'case "$*" in *pip*) exit 1;; esac')
    said = setup(checkout)
    assert "the packages of requirements/build.lock could not be installed (see above)" in said


def test_native_code_that_does_not_compile(checkout: Path) -> None:
    program(checkout / ".venv" / "bin" / "cmake", "echo wire.cpp:3: error; exit 1")
    left = checkout / "fabric" / "_cython" / "old.cpp"
    left.parent.mkdir(parents=True)
    left.write_text("/* Generated by Cython 3.1 */\n")
    said = setup(checkout)
    assert "wire.cpp:3: error" in said
    assert not left.exists()
    assert "the native code did not compile (see above; the whole log is build/native.log)" in said


@pytest.mark.parametrize(
    ("cargo", "has"), [("exit 127", "none"), ("echo 'cargo 1.63.0 (x)'", "cargo 1.63.0 (x)")]
)
def test_a_rust_that_is_missing_or_too_old(cargo: str, has: str, checkout: Path) -> None:
    (checkout / "fabric" / "_rust").mkdir(parents=True)
    program(checkout.parent / "programs" / "cargo", cargo)
    done = subprocess.run(
        [checkout / ".ci" / "tonbo", "check"],
        env={"PATH": f"{checkout.parent / 'programs'}:{os.environ['PATH']}", "HOME": str(checkout)},
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"missing: Rust, which the engine tonbo is built with ({has} is here)" in done.stderr
    assert "please install Rust 1.88 or newer" in done.stderr


@pytest.mark.parametrize(
    ("there", "what"),
    [
        ((), "is not built"),
        (("_utility.cpython-310-x86_64-linux-gnu.so",), r"was built for another Python \(cpython-"),
        (("_utility.pyi",), "is not built"),
    ],
)
def test_native_code_of_no_or_another_python(
    there: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    for name in there:
        (tmp_path / name).touch()
    assert re.search(what, refusal(str(tmp_path)))
    assert f"this one needs {EXTENSION_SUFFIXES[0][1:]}" in refusal(str(tmp_path))
    assert "run `make build` with this Python" in refusal(str(tmp_path))


def test_native_code_of_this_python(tmp_path: Path) -> None:
    (tmp_path / f"_utility{EXTENSION_SUFFIXES[0]}").touch()
    (tmp_path / "_utility.cpython-310-x86_64-linux-gnu.so").touch()
    assert refusal(str(tmp_path)) == ""
