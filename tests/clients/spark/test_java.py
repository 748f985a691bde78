"""No Java, an old one, a wrong JAVA_HOME: one clear sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.clients.spark.java import check_java, java_major, java_problem
from fabric.errors import ExternalError


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH; the ``java`` in it is written by the test."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "java"


def says(java: Path, line: str) -> None:
    java.parent.mkdir(exist_ok=True)
    java.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    java.chmod(0o700)


def test_none(java: Path) -> None:
    assert java_major() is None
    with pytest.raises(
        ExternalError, match="Java is missing, and Spark runs on it; install Java 17"
    ):
        check_java()


@pytest.mark.parametrize(
    ("line", "major"),
    [('openjdk version "1.8.0_402"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)],
)
def test_older(java: Path, line: str, major: int) -> None:
    says(java, line)
    with pytest.raises(ExternalError, match=f"Java {major} is too old for Spark; install Java 17"):
        check_java()


def test_new_enough(java: Path) -> None:
    says(java, 'openjdk version "21" 2023-09-19')
    assert java_problem() == ""
    check_java()


def test_the_one_of_java_home_counts(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(java, 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert "Java is missing in JAVA_HOME (" in java_problem()
    (tmp_path / "jdk").mkdir()
    says(tmp_path / "jdk" / "bin" / "java", 'openjdk version "11.0.2"')
    assert "Java 11 is too old for Spark" in java_problem()


def test_something_that_is_no_java(java: Path) -> None:
    says(java, "hello")
    assert java_major() is None
