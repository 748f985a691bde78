"""What lets Spark read ``s3a://``: jars of pinned versions, see ``s3a.xml``."""

from __future__ import annotations

from pathlib import Path

from fabric.clients.demo.services.server import jars
from tests.services import STORE


def s3a_jars() -> list[str]:
    """They, for ``spark.jars``."""
    return sorted(map(str, jars(STORE, Path(__file__).with_suffix(".xml")).glob("*.jar")))


def prepare() -> None:
    """Fetch them, unless they are there."""
    s3a_jars()
