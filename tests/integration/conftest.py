"""Fabrics for the whole test session: embedded, and real processes with 2 and 4 agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fabric
from fabric.testing import LocalFabric, local_fabric


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
def session(two: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as opened:
        yield opened
