"""Both backends, each in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fabric.state import BackendName, StateSpec, StateStore, open_states

Open = Callable[..., StateStore]


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


@pytest.fixture
def opened(backend: BackendName, tmp_path: Path) -> Iterator[Open]:
    """Stores of `backend`, or of another one, closed at the end."""
    stores: list[StateStore] = []
    numbers = count()

    def opened(
        specs: Sequence[StateSpec], other: BackendName | None = None, **more: Any
    ) -> StateStore:
        folder = tmp_path / str(next(numbers))
        stores.append(open_states(other or backend, specs, folder, **more))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()
