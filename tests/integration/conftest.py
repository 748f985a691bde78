"""Fabrics for the whole test session: embedded, and real processes with 2 and 4 agents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fabric
from tests.support.buckets import new_bucket, use_store
from tests.support.local import LocalFabric, local_fabric

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `bench`, which is no package of fabric


@pytest.fixture(scope="session")
def two() -> Iterator[LocalFabric]:
    with local_fabric(2) as running:
        yield running


@pytest.fixture(scope="session")
def four() -> Iterator[LocalFabric]:
    with local_fabric(4) as running:
        yield running


@pytest.fixture(scope="session")
def embedded() -> Iterator[fabric.Session]:
    with fabric.connect() as session:
        yield session


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new bucket, whose name is its own."""
    use_store(monkeypatch)
    return new_bucket()


@pytest.fixture
def session(two: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as opened:
        yield opened


@pytest.fixture
def told() -> Callable[..., None]:
    """``told(error, *words)``: it names all of `words`, and nothing that is nobody's business."""

    def check(error: fabric.FabricError, *words: str) -> None:
        text = str(error)
        for word in words:
            assert word in text
        for inside in ("Traceback", "traceback", 'File "', "site-packages", fabric.__file__[:-12]):
            assert inside not in text

    return check
